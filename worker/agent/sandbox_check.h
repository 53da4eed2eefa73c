#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/agent/sandbox/private_tmps.h"
#include "worker/agent/sandbox/sandbox.h"

namespace dp::worker {

// The options with all paths of --writable free of links. Errors: FailedPrecondition names a path
// that is not there.
absl::StatusOr<Sandbox> WithRealPaths(Sandbox sandbox);

// Tries once whether guards can give ranks the mounts that the options ask for, so that no job
// finds out. `tmps`: the private directories; null: none. `spool_dir` exists. `keep_users`: ranks
// run as other users. Blocks. Errors: FailedPrecondition names the options, the fault and the
// remedy.
absl::Status CheckMounts(const std::string& guard_path, const Sandbox& sandbox, PrivateTmps* tmps,
                         const std::string& spool_dir, bool keep_users);

}  // namespace dp::worker
