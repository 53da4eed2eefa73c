#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dp::ctl {

// Makes others' text fit for a line of a terminal. Control characters could move the cursor or
// begin a line, so they become "\n" or "\x1b"; all else stays. Pure.
std::string Printable(absl::string_view text);

}  // namespace dp::ctl
