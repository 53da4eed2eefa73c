#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp::ctl {

// Runs `dp-trainer VERB FILE` with the program beside the running one and a file that holds
// `request`. Returns what it prints; blocks until it has ended. If this process dies, the kernel
// ends it. Errors: FailedPrecondition no such program, or no temporary directory; Internal it could
// not be started, or ended without a word; with its last lines.
absl::StatusOr<std::string> RunLocalTrainer(const std::string& verb, const std::string& request);

}  // namespace dp::ctl
