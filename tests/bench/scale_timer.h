#pragma once

#include <functional>
#include <map>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp::bench {

// Runs functions at their time on one thread. Functions must not block. Thread-safe.
class Timer {
 public:
  Timer() : thread_([this] { Run(); }) {}
  ~Timer() {
    {
      MutexLock lock(mu_);
      stopped_ = true;
    }
    changed_.NotifyAll();
  }

  void At(absl::Time when, std::function<void()> run) DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      due_.emplace(when, std::move(run));
    }
    changed_.NotifyAll();
  }
  void After(absl::Duration delay, std::function<void()> run) {
    At(absl::Now() + delay, std::move(run));
  }
  // Not from a function that the timer runs. Blocks until `when`. The functions that were due
  // before it have then run.
  void WaitUntil(absl::Time when) DP_EXCLUDES(mu_) {
    absl::Notification reached;
    At(when, [&reached] { reached.Notify(); });
    reached.WaitForNotification();
  }

 private:
  void Run() DP_EXCLUDES(mu_) {
    for (std::function<void()> run; (run = Next()) != nullptr;) run();
  }
  // Blocks until the next function is due; null after the end.
  std::function<void()> Next() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!stopped_) {
      const absl::Time next = due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
      if (next <= absl::Now()) {
        std::function<void()> run = std::move(due_.begin()->second);
        due_.erase(due_.begin());
        return run;
      }
      changed_.WaitFor(mu_, next - absl::Now(), [&]() DP_REQUIRES(mu_) {
        return stopped_ || (!due_.empty() && due_.begin()->first < next);
      });
    }
    return nullptr;
  }

  Mutex mu_;
  CondVar changed_;
  std::multimap<absl::Time, std::function<void()>> due_ DP_GUARDED_BY(mu_);
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace dp::bench
