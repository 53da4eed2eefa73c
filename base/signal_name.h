#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dp {

// "signal 9 (SIGKILL)", the form in all messages; the number alone if the name is not well known.
std::string SignalText(int signal);

// Whether this system has a signal of that name, such as "SIGTERM".
bool IsSignalName(absl::string_view name);

}  // namespace dp
