#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dp {

// "signal 9 (SIGKILL)", as every part says it; the number alone where the name is not well known.
std::string SignalText(int signal);

// Whether this system has a signal of that name, as "SIGTERM".
bool IsSignalName(absl::string_view name);

}  // namespace dp
