#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/agent/processes/rank_cgroups.h"

namespace dp::worker {

// How a daemon tracks the processes that its ranks start: the values of --process-tracking.
inline const std::vector<std::string> kProcessTrackings = {"auto", "cgroup", "guard"};

// Opens cgroups for the ranks. Null: guards alone track processes, because `how` is "guard", or
// because "auto" finds no cgroup. Logs the choice and its reason. Errors: FailedPrecondition `how`
// is "cgroup" and there is none.
absl::StatusOr<std::unique_ptr<RankCgroups>> OpenProcessTracking(const std::string& how);

}  // namespace dp::worker
