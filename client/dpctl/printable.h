#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dp::ctl {

// What others have written, fit for a line of a terminal: control characters, which could move the
// cursor or begin a line of their own, as "\n" or "\x1b"; all else as it is. Pure.
std::string Printable(absl::string_view text);

}  // namespace dp::ctl
