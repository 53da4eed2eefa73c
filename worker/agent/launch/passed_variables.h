#pragma once

#include <string>
#include <vector>

namespace dp::worker {

// Which of its own variables a daemon passes on to ranks. Its environment may hold credentials of
// whoever started it, which are none of a job's business.
//
// Returns those of `variables` (NAME=value) that are on dp's own list (docs/worker.md) or match one
// of the patterns in `more` (base/variable_pattern.h).
std::vector<std::string> PassedVariables(const std::vector<std::string>& variables,
                                         const std::vector<std::string>& more);

}  // namespace dp::worker
