#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/agent/cgroup_paths.h"
#include "worker/agent/worker_cgroup.h"
#include "worker/core/rank.h"

namespace dp::worker {

// What a daemon does to have every process of a rank in its hand, whatever it forks: it gives each
// rank a cgroup of its own. The first hierarchy of these that may be written is used: v2, v1's
// freezer, v1's name=systemd. Where memory can be limited,
// in the same cgroup or in one of v1's memory hierarchy, it is. Made and destroyed by main; in
// between the runner's thread alone uses it, but for EarlierGone. Destroying it moves the daemon
// back to where it came from.
class RankCgroups {
 public:
  // Whether cgroups that nobody has handed over to this daemon count as writable where they are.
  enum class Claim { kDelegated, kAny };

  // Moves this process, and ends what daemons that were killed have left where it was.
  // Errors: FailedPrecondition with the reason for each hierarchy that was tried.
  static absl::StatusOr<std::unique_ptr<RankCgroups>> Open(const CgroupPaths& own, Claim claim);

  // Makes fresh cgroups for the rank to join; the first one holds all that is to be killed with it.
  // Errors: with the path and the reason.
  absl::StatusOr<std::vector<std::string>> Create(const RankKey& key);
  // What it may have of the host's memory. After Create; false where that cannot be held to.
  bool LimitMemory(const RankKey& key, int64_t bytes);
  // Kills what is left in them, and removes them when that is gone. Does not wait for it: false
  // where something is in them still; ask again.
  bool Remove(const RankKey& key);
  // Whether the kernel has killed a process of the rank for want of memory; nothing where it does
  // not count that.
  std::optional<bool> OomKilled(const RankKey& key) const;

  // Whether no process is left in the cgroups that Open found of killed daemons. One thread at a
  // time, which need not be the runner's.
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
  bool limits_memory_ = false;          // `worker_` does
  std::optional<WorkerCgroup> memory_;  // else this one, of v1, where there is one
};

}  // namespace dp::worker
