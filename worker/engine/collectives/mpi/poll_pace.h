#pragma once

#include <algorithm>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp::engine {

// How often a rank looks after its transfers: MPI has nothing to sleep on. At first at once again,
// while others may run, and then ever more seldom. Wait is for one thread; Ring is for any.
class PollPace {
 public:
  void Restart() { looks_ = 0; }

  // Returns when it is time to look again, or somebody has rung.
  void Wait() DP_EXCLUDES(mu_) {
    if (++looks_ < kEagerLooks) return std::this_thread::yield();
    const int doublings = std::min(looks_ - kEagerLooks, kDoublings);
    MutexLock lock(mu_);
    if (!rung_) rings_.WaitFor(mu_, kShortest * (1 << doublings));
    rung_ = false;
  }

  void Ring() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    rung_ = true;
    rings_.NotifyAll();
  }

 private:
  static constexpr int kEagerLooks = 200;
  static constexpr absl::Duration kShortest = absl::Microseconds(20);
  static constexpr int kDoublings = 6;  // up to 1.3 ms

  int looks_ = 0;
  Mutex mu_;
  CondVar rings_;
  bool rung_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::engine
