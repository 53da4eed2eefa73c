#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/agent/rank_cgroups.h"

namespace dp::worker {

// How a daemon keeps track of what its ranks have started, as --process-tracking names it: "auto",
// "cgroup", "guard".
inline const std::vector<std::string> kProcessTrackings = {"auto", "cgroup", "guard"};

// Cgroups for the ranks; null where guards alone are to do: where nothing else is asked for, or
// none is to be had ("auto"). Logs which, and why. Errors: FailedPrecondition "cgroup" is asked
// for, and none is to be had.
absl::StatusOr<std::unique_ptr<RankCgroups>> OpenProcessTracking(const std::string& how);

}  // namespace dp::worker
