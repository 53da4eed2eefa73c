#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/id.h"
#include "server/callers/caller_names.h"
#include "server/core/job.h"
#include "server/driver/blocked_call.h"
#include "store/key_values.h"

namespace dp::server {

// Records which ranks have been seen waiting at a barrier; the store itself only counts them. For
// people only. Lost with the process, and learned again when the ranks wait again.
//
// Not thread-safe; owned by the coordinator's server, touched on the driver's thread only.
class BarrierArrivals {
 public:
  // Bounds the barriers that nobody passes any more; those of the oldest jobs are forgotten first.
  static constexpr size_t kBarriersMax = 10'000;
  // Per barrier: each of 10,000 ranks, and a second connection of each. A barrier with more
  // arrivals, as when a client reconnects again and again, is forgotten and begins anew.
  static constexpr size_t kArrivalsMax = 20'000;
  // Over all barriers, as they accumulate: tens of MB.
  static constexpr size_t kAllArrivalsMax = 200'000;

  struct Barrier {
    JobId job;
    Generation generation;
    std::string key;
    auto operator<=>(const Barrier&) const = default;
  };

  // Records that the call waits at each of its barriers that has not been passed.
  void Saw(const BlockedCall& call, const KeyValues& store);
  // The call was answered: forgets those of its barriers that have been passed.
  void Answered(const BlockedCall& call, const KeyValues& store);
  // The ranks of the job that have not arrived. Empty if they are unknown: all of the job's ranks
  // must meet at the barrier, and each of the `arrived` must have been seen.
  std::set<int> Missing(const core::Job& job, const std::string& key, int64_t arrived,
                        int64_t count, const CallerNames& names) const;
  // How many arrivals are remembered, over all barriers.
  size_t size() const { return size_; }

 private:
  struct Seen {
    std::set<int> ranks;
    std::set<std::string> peers;  // of arrivals whose rank was not known then
    size_t size() const { return ranks.size() + peers.size(); }
  };

  void Add(const Barrier& barrier, const BlockedCall& call);
  void Forget(std::map<Barrier, Seen>::iterator it);

  std::map<Barrier, Seen> seen_;
  size_t size_ = 0;
};

}  // namespace dp::server
