#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dp {

// Returns the command line, and replaces the values of `flag` in `argv` by stars. Finds both
// "--token VALUE" and "--token=VALUE". `argv` is that of main(): /proc shows it to all users of the
// host.
std::vector<std::string> TakeArguments(int argc, char** argv, absl::string_view flag);

}  // namespace dp
