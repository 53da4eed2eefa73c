#pragma once

#include <map>
#include <utility>

#include "base/id.h"
#include "base/mutex.h"

namespace dp::server {

// Passes news of workers from the threads that receive heartbeats to the driver's thread. A
// worker's later news replaces its earlier news. Put therefore never fails, and there is at most
// one entry per worker. Thread-safe.
template <typename News>
class LatestNews {
 public:
  struct Told {
    Incarnation by;
    News news;
  };

  void Put(WorkerId worker, Incarnation incarnation, News news) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    told_[worker] = Told{incarnation, std::move(news)};
  }
  std::map<WorkerId, Told> Take() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::exchange(told_, {});
  }

 private:
  Mutex mu_;
  std::map<WorkerId, Told> told_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::server
