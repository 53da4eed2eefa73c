#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include "absl/time/time.h"
#include "base/check.h"
#include "base/mutex.h"

namespace dp::ctl {

// Counts how often the user pressed Ctrl-C. Another signal that ends programs counts only if
// nothing was counted before. Thread-safe.
class Interrupts {
 public:
  Interrupts() : raised_(eventfd(0, EFD_CLOEXEC)) { DP_CHECK(raised_ >= 0); }
  ~Interrupts() { close(raised_); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  void Raise() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      ++count_;
    }
    DP_CHECK(eventfd_write(raised_, 1) == 0);
    changed_.NotifyAll();
  }

  // Ends all waits, now and later, that have not reached their count.
  void StopWaiting() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      stopped_ = true;
    }
    changed_.NotifyAll();
  }

  // Waits until the count reaches `count`. Returns false when `timeout` passed or StopWaiting came
  // first.
  bool Await(int count, absl::Duration timeout) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    changed_.WaitFor(mu_, timeout,
                     [this, count]() DP_REQUIRES(mu_) { return count_ >= count || stopped_; });
    return count_ >= count;
  }

  int count() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return count_;
  }

  // A descriptor for poll, readable once there was an interrupt. Never read from it.
  int descriptor() const { return raised_; }

 private:
  const int raised_;
  mutable Mutex mu_;
  CondVar changed_;
  int count_ DP_GUARDED_BY(mu_) = 0;
  bool stopped_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::ctl
