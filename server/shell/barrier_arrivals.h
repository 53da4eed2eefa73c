#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/id.h"
#include "base/store/key_values.h"
#include "server/core/job.h"
#include "server/shell/blocked_call.h"
#include "server/shell/caller_names.h"

namespace dp::server {

// Which ranks have been seen waiting at a barrier: the store itself only counts them. For people;
// forgotten with the process, learned again from the waits that are made anew.
//
// Not thread-safe; owned by the coordinator's server, touched on the driver's thread only.
class BarrierArrivals {
 public:
  // Barriers that nobody passes any more go, the oldest jobs first.
  static constexpr size_t kBarriersMax = 10'000;
  // Of one barrier: each of 10,000 ranks, and as many that have come by a second connection. One
  // that has more, as where a client comes again and again, begins anew.
  static constexpr size_t kArrivalsMax = 20'000;
  // Of all barriers, as they go: tens of MB.
  static constexpr size_t kAllArrivalsMax = 200'000;

  struct Barrier {
    JobId job;
    Generation generation;
    std::string key;
    auto operator<=>(const Barrier&) const = default;
  };

  // The call begins to wait: it stands at those of its barriers that have not been passed.
  void Saw(const BlockedCall& call, const KeyValues& store);
  // It is answered: those that have been passed are of no interest any more.
  void Answered(const BlockedCall& call, const KeyValues& store);
  // The ranks of the job that have not come, where that can be told: all of the job's ranks meet
  // there, and each of the `arrived` was seen.
  std::set<int> Missing(const core::Job& job, const std::string& key, int64_t arrived,
                        int64_t count, const CallerNames& names) const;
  // How many are remembered, of all barriers.
  size_t size() const { return size_; }

 private:
  struct Seen {
    std::set<int> ranks;
    std::set<std::string> peers;  // of those whose rank was not known then
    size_t size() const { return ranks.size() + peers.size(); }
  };

  void Add(const Barrier& barrier, const BlockedCall& call);
  void Forget(std::map<Barrier, Seen>::iterator it);

  std::map<Barrier, Seen> seen_;
  size_t size_ = 0;
};

}  // namespace dp::server
