#pragma once

#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp::client {

// The wait between two attempts, which a shutdown can end. Owned by the part that shuts down;
// thread-safe.
class Pause {
 public:
  // Waits for `duration`, or less once stopped. Returns false when stopped.
  bool For(absl::Duration duration) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return !changed_.WaitFor(mu_, duration, [this]() DP_REQUIRES(mu_) { return stopped_; });
  }

  // Ends every wait, now and later. Idempotent.
  void Stop() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      stopped_ = true;
    }
    changed_.NotifyAll();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool stopped_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::client
