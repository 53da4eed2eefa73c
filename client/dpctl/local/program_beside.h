#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp::ctl {

// The path of a program beside the running one. Errors: FailedPrecondition it is not there.
absl::StatusOr<std::string> ProgramBeside(const std::string& program);

// The last lines of what a program has logged, each behind a line break and a bar. Empty if there
// are none.
std::string LastLines(const std::string& file);

}  // namespace dp::ctl
