#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/agent/cgroup_paths.h"
#include "worker/agent/worker_cgroup.h"
#include "worker/core/rank.h"

namespace dp::worker {

// What a daemon does to have every process of a rank in its hand, whatever it forks: it gives each
// rank a cgroup of its own. The first hierarchy of these that may be written is used: v2, v1's
// freezer, v1's name=systemd. Made and destroyed by main; in between the runner's thread alone uses
// it. Destroying it moves the daemon back to where it came from.
class RankCgroups {
 public:
  // Whether cgroups that nobody has handed over to this daemon count as writable where they are.
  enum class Claim { kDelegated, kAny };

  // Moves this process, and ends what daemons that were killed have left where it was.
  // Errors: FailedPrecondition with the reason for each hierarchy that was tried.
  static absl::StatusOr<std::unique_ptr<RankCgroups>> Open(const CgroupPaths& own, Claim claim);

  // Makes a fresh cgroup. Errors: with the path and the reason.
  absl::StatusOr<std::string> Create(const RankKey& key);
  // Kills what is left in it. False where something outlives that.
  bool Remove(const RankKey& key);

  // "cgroup2", "freezer", "name=systemd".
  const std::string& hierarchy() const { return hierarchy_; }
  const std::string& dir() const { return worker_.dir(); }

 private:
  RankCgroups(std::string hierarchy, WorkerCgroup worker);
  std::string PathOf(const RankKey& key) const;

  const std::string hierarchy_;
  const WorkerCgroup worker_;
};

}  // namespace dp::worker
