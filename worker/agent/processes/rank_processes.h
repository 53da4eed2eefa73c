#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/mutex.h"
#include "worker/core/rank.h"

namespace dp::worker {

// A socket as the kernel's tables name it.
struct SocketId {
  uint64_t inode = 0;
  uint64_t cgroup = 0;  // the v2 cgroup of the process that made it; 0: unknown
};

// Tells which generation the processes of this daemon belong to. The runner writes it; any thread
// may ask.
class RankProcesses {
 public:
  // The rank's processes begin in the v2 cgroup `dir`, which exists. Call before the first begins.
  void BeginIn(const RankKey& key, const std::string& dir) DP_EXCLUDES(mu_);
  // The rank's processes descend from the guard.
  void BeginUnder(const RankKey& key, pid_t guard) DP_EXCLUDES(mu_);
  // Nothing is left of the rank.
  void End(const RankKey& key) DP_EXCLUDES(mu_);

  // Whether a process of the generation's ranks holds the socket. Takes no time if the socket was
  // made in the cgroup of one of this daemon's ranks. Otherwise searches the descendants of the
  // generation's guards. This takes a fraction of a millisecond for a rank with some threads, and
  // milliseconds if none of them holds it. A descendant that hides its descriptors counts as
  // holding it, as does one of a guard that has begun and is not known yet.
  bool Hold(JobId job, Generation generation, const SocketId& socket) const DP_EXCLUDES(mu_);

 private:
  struct Begun {
    uint64_t cgroup = 0;
    pid_t guard = 0;
  };
  // By the cgroup alone; absent: it does not tell.
  std::optional<bool> ByCgroup(JobId job, Generation generation, uint64_t cgroup) const
      DP_EXCLUDES(mu_);
  std::vector<pid_t> GuardsOf(JobId job, Generation generation) const DP_EXCLUDES(mu_);
  bool IsOfOthers(JobId job, Generation generation, pid_t guard) const DP_EXCLUDES(mu_);

  mutable Mutex mu_;
  std::map<RankKey, Begun> ranks_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::worker
