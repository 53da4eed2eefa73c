#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/agent/processes/cgroup_paths.h"
#include "worker/agent/processes/worker_cgroup.h"
#include "worker/core/rank.h"

namespace dp::worker {

// Gives each rank a cgroup of its own, so that the daemon can kill every process of the rank,
// whatever it forks. Uses the first writable hierarchy of: v2, v1's freezer, v1's name=systemd.
// Memory is limited, if possible, in the same cgroup or in one of v1's memory hierarchy. Main
// creates and destroys this object; in between only the runner's thread uses it, except for
// EarlierGone. The destructor moves the daemon back to its original cgroup.
class RankCgroups {
 public:
  // kDelegated: on a host with systemd, only cgroups that systemd has delegated count as writable.
  enum class Claim { kDelegated, kAny };

  // Moves this process into a new cgroup, and kills the processes that killed daemons left beside
  // it. Errors: FailedPrecondition with the reason for each hierarchy that was tried.
  static absl::StatusOr<std::unique_ptr<RankCgroups>> Open(const CgroupPaths& own, Claim claim);

  // Makes fresh cgroups for the rank to join. The first one holds all processes to kill with the
  // rank. Errors: with the path and the reason.
  absl::StatusOr<std::vector<std::string>> Create(const RankKey& key);
  // Limits the rank's host memory. Call after Create. False if the limit cannot be enforced.
  bool LimitMemory(const RankKey& key, int64_t bytes);
  // Kills the processes left in the rank's cgroups, and removes the cgroups once they are empty.
  // Does not wait: false while a process is in them; call again.
  bool Remove(const RankKey& key);
  // Whether the kernel killed a process of the rank because memory ran out; nothing if it does not
  // count these kills.
  std::optional<bool> OomKilled(const RankKey& key) const;

  // Whether no process is left in the cgroups of killed daemons that Open found. One thread at a
  // time, not necessarily the runner's.
  bool EarlierGone() { return stale_.Gone(); }

  // "cgroup2", "freezer", "name=systemd".
  const std::string& hierarchy() const { return hierarchy_; }
  const std::string& dir() const { return worker_.dir(); }
  // Where memory is limited: "cgroup2", "memory" (v1), "nowhere".
  std::string memory() const;
  bool limits_memory() const { return limits_memory_ || memory_.has_value(); }

 private:
  RankCgroups(std::string hierarchy, WorkerCgroup worker);
  void OpenMemory(const CgroupPaths& own, Claim claim);
  // Empty: memory is limited nowhere.
  std::string MemoryPathOf(const RankKey& key) const;

  const std::string hierarchy_;
  StaleCgroups stale_;
  WorkerCgroup worker_;
  bool limits_memory_ = false;          // by `worker_`
  std::optional<WorkerCgroup> memory_;  // otherwise the limit is here, in v1
};

// How a daemon tracks the processes that its ranks start: the values of --process-tracking.
inline const std::vector<std::string> kProcessTrackings = {"auto", "cgroup", "guard"};

// Opens cgroups for the ranks. Null: guards alone track processes, because `how` is "guard", or
// because "auto" finds no cgroup. Logs the choice and its reason. Errors: FailedPrecondition `how`
// is "cgroup" and there is none.
absl::StatusOr<std::unique_ptr<RankCgroups>> OpenProcessTracking(const std::string& how);

}  // namespace dp::worker
