#include "worker/agent/processes/process_tracking.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"

namespace dp::worker {

absl::StatusOr<std::unique_ptr<RankCgroups>> OpenProcessTracking(const std::string& how) {
  if (how == "guard") {
    Log(Severity::kInfo, "process_tracking", {{"by", "guard"}});
    return nullptr;
  }
  const bool must = how == "cgroup";
  auto cgroups = RankCgroups::Open(
      OwnCgroupPaths(), must ? RankCgroups::Claim::kAny : RankCgroups::Claim::kDelegated);
  if (cgroups.ok()) {
    Log(Severity::kInfo, "process_tracking",
        {{"by", "cgroup"},
         {"hierarchy", (*cgroups)->hierarchy()},
         {"cgroup", (*cgroups)->dir()},
         {"memory_limited_by", (*cgroups)->memory()}});
    return cgroups;
  }
  const std::string reason(cgroups.status().message());
  if (must) {
    return absl::FailedPreconditionError(
        absl::StrCat("no cgroup can be made for ranks: ", reason,
                     "; let the service manager delegate one (Delegate=yes), or leave "
                     "--process-tracking out"));
  }
  Log(Severity::kInfo, "process_tracking", {{"by", "guard"}, {"no_cgroup", reason}});
  return nullptr;
}

}  // namespace dp::worker
