#include "worker/agent/rank_cgroups.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::worker {
namespace {

// Of a rank whose guard was killed; one that takes longer hangs in the kernel.
constexpr absl::Duration kPatience = absl::Seconds(10);

// In the order of what they are worth. Of v2 the kernel kills all at once and tells when all are
// gone; the freezer keeps what is being killed from forking.
constexpr const char* kHierarchies[] = {kCgroup2, "freezer", "name=systemd"};

bool SystemdIsHere() { return access("/run/systemd/system", F_OK) == 0; }

// systemd marks what is a service's own (Delegate=yes). It owns all others, and may move or remove
// what is in them.
bool IsDelegated(const std::string& dir) {
  for (const char* mark : {"user.delegate", "trusted.delegate"}) {
    char value[2] = "";
    if (getxattr(dir.c_str(), mark, value, sizeof(value)) == 1 && value[0] == '1') return true;
  }
  return false;
}

absl::StatusOr<WorkerCgroup> Take(const std::string& dir, RankCgroups::Claim claim) {
  if (claim == RankCgroups::Claim::kDelegated && SystemdIsHere() && !IsDelegated(dir)) {
    return absl::PermissionDeniedError(absl::StrCat("systemd has not delegated ", dir));
  }
  DP_ASSIGN_OR_RETURN(WorkerCgroup cgroup, WorkerCgroup::Make(dir));
  DP_RETURN_IF_ERROR(cgroup.MoveIn());
  return cgroup;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankCgroups>> RankCgroups::Open(const CgroupPaths& own,
                                                               Claim claim) {
  std::string reasons;
  for (const char* hierarchy : kHierarchies) {
    const auto path = own.find(hierarchy);
    if (path == own.end()) continue;
    absl::StatusOr<WorkerCgroup> worker = Take(path->second, claim);
    if (worker.ok()) {
      EndStaleCgroups(path->second);
      return std::unique_ptr<RankCgroups>(new RankCgroups(hierarchy, *std::move(worker)));
    }
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", std::string(worker.status().message()));
  }
  return absl::FailedPreconditionError(reasons.empty() ? "no cgroups are mounted" : reasons);
}

RankCgroups::RankCgroups(std::string hierarchy, WorkerCgroup worker)
    : hierarchy_(std::move(hierarchy)), worker_(std::move(worker)) {}

std::string RankCgroups::PathOf(const RankKey& key) const {
  return absl::StrCat(worker_.dir(), "/rank-", key.job.value(), ".", key.generation.value(), ".",
                      key.rank);
}

absl::StatusOr<std::string> RankCgroups::Create(const RankKey& key) {
  const std::string dir = PathOf(key);
  if (mkdir(dir.c_str(), 0755) == 0) return dir;
  return absl::ErrnoToStatus(errno, absl::StrCat("cgroup ", dir));
}

bool RankCgroups::Remove(const RankKey& key) { return EndCgroup(PathOf(key), kPatience); }

}  // namespace dp::worker
