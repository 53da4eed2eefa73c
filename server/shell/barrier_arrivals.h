#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/id.h"
#include "server/core/coordinator.h"

namespace dp::server {

// Which ranks have been seen waiting at a barrier: the store itself only counts them. For people;
// forgotten with the process, learned again from the waits that are made anew.
//
// Not thread-safe; owned by the store's service, touched on the driver's thread only.
class BarrierArrivals {
 public:
  struct Barrier {
    JobId job;
    Generation generation;
    std::string key;
    auto operator<=>(const Barrier&) const = default;
  };

  void Saw(const Barrier& barrier, int rank);
  // It has been passed.
  void Forget(const Barrier& barrier) { ranks_.erase(barrier); }
  // The ranks of the job that have not come, where that can be told: all of the job's ranks meet
  // there, and each of the `arrived` was seen.
  std::set<int> Missing(const Barrier& barrier, int64_t arrived, int64_t count,
                        const core::Coordinator& coordinator) const;

 private:
  // Barriers that nobody passes any more go, the oldest jobs first.
  static constexpr size_t kBarriersMax = 10'000;

  std::map<Barrier, std::set<int>> ranks_;
};

}  // namespace dp::server
