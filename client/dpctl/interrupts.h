#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp::ctl {

// Counts how often the user pressed Ctrl-C. Thread-safe.
class Interrupts {
 public:
  void Raise() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      ++count_;
    }
    changed_.NotifyAll();
  }

  // Ends the waits, now and later, of those who asked for no more than `timeout`.
  void StopWaiting() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      stopped_ = true;
    }
    changed_.NotifyAll();
  }

  // Waits until there have been `count`; returns false when `timeout` passed or StopWaiting came
  // first.
  bool Await(int count, absl::Duration timeout) DP_EXCLUDES(mu_) {
    const absl::Time until = absl::Now() + timeout;
    MutexLock lock(mu_);
    for (absl::Duration left = timeout; count_ < count && !stopped_ && left > absl::ZeroDuration();
         left = until - absl::Now()) {
      changed_.WaitFor(mu_, left);
    }
    return count_ >= count;
  }

  int count() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return count_;
  }

 private:
  mutable Mutex mu_;
  CondVar changed_;
  int count_ DP_GUARDED_BY(mu_) = 0;
  bool stopped_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::ctl
