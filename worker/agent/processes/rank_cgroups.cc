#include "worker/agent/processes/rank_cgroups.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/agent/processes/cgroup.h"
#include "worker/agent/processes/oom_kills.h"

namespace dp::worker {
namespace {

// Best first. In v2 the kernel kills all processes at once and reports when all are gone. The
// freezer keeps dying processes from forking.
constexpr const char* kHierarchies[] = {kCgroup2, "freezer", "name=systemd"};

bool SystemdIsHere() { return access("/run/systemd/system", F_OK) == 0; }

// systemd marks the cgroups that it has delegated to a service (Delegate=yes). It owns all others,
// and may move or remove their content.
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
  return WorkerCgroup::Make(dir);
}

absl::StatusOr<WorkerCgroup> TakeAndMoveIn(const std::string& dir, RankCgroups::Claim claim) {
  DP_ASSIGN_OR_RETURN(WorkerCgroup cgroup, Take(dir, claim));
  DP_RETURN_IF_ERROR(cgroup.MoveIn());
  return cgroup;
}

std::string PathOf(const WorkerCgroup& worker, const RankKey& key) {
  return absl::StrCat(worker.dir(), "/rank-", key.job.value(), ".", key.generation.value(), ".",
                      key.rank);
}

absl::Status MakeCgroup(const std::string& dir) {
  if (mkdir(dir.c_str(), 0755) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cgroup ", dir));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankCgroups>> RankCgroups::Open(const CgroupPaths& own,
                                                               Claim claim) {
  std::string reasons;
  for (const char* hierarchy : kHierarchies) {
    const auto path = own.find(hierarchy);
    if (path == own.end()) continue;
    absl::StatusOr<WorkerCgroup> worker = TakeAndMoveIn(path->second, claim);
    if (worker.ok()) {
      std::unique_ptr<RankCgroups> cgroups(new RankCgroups(hierarchy, *std::move(worker)));
      cgroups->stale_.End(path->second);
      cgroups->OpenMemory(own, claim);
      return cgroups;
    }
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", std::string(worker.status().message()));
  }
  return absl::FailedPreconditionError(reasons.empty() ? "no cgroups are mounted" : reasons);
}

RankCgroups::RankCgroups(std::string hierarchy, WorkerCgroup worker)
    : hierarchy_(std::move(hierarchy)), worker_(std::move(worker)) {}

// Without it ranks run without limits.
void RankCgroups::OpenMemory(const CgroupPaths& own, Claim claim) {
  limits_memory_ = hierarchy_ == kCgroup2 && worker_.LimitsMemory();
  const auto v1 = own.find("memory");
  if (limits_memory_ || v1 == own.end()) return;
  absl::StatusOr<WorkerCgroup> memory = Take(v1->second, claim);
  if (!memory.ok()) return;
  stale_.End(v1->second);
  memory_.emplace(*std::move(memory));
}

std::string RankCgroups::memory() const {
  return limits_memory_ ? kCgroup2 : memory_.has_value() ? "memory" : "nowhere";
}

std::string RankCgroups::MemoryPathOf(const RankKey& key) const {
  if (limits_memory_) return PathOf(worker_, key);
  return memory_.has_value() ? PathOf(*memory_, key) : "";
}

absl::StatusOr<std::vector<std::string>> RankCgroups::Create(const RankKey& key) {
  std::vector<std::string> dirs{PathOf(worker_, key)};
  if (memory_.has_value()) dirs.push_back(PathOf(*memory_, key));
  for (const std::string& dir : dirs) DP_RETURN_IF_ERROR(MakeCgroup(dir));
  return dirs;
}

bool RankCgroups::LimitMemory(const RankKey& key, int64_t bytes) {
  const std::string dir = MemoryPathOf(key);
  return !dir.empty() && worker::LimitMemory(dir, bytes);
}

bool RankCgroups::Remove(const RankKey& key) {
  const bool empty = EmptyCgroup(PathOf(worker_, key));
  return (!memory_.has_value() || EmptyCgroup(PathOf(*memory_, key))) && empty;
}

std::optional<bool> RankCgroups::OomKilled(const RankKey& key) const {
  const std::string dir = MemoryPathOf(key);
  const auto kills = dir.empty() ? std::nullopt : OomKillsIn(dir);
  return kills.has_value() ? std::optional(*kills > 0) : std::nullopt;
}

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
