#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

// Locks with thread-safety annotations over std::mutex. Distributions package absl's own locks
// without the thread sanitizer's annotations, so the sanitizer would drown in false reports.

#if defined(__clang__)
#define DP_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define DP_THREAD_ANNOTATION(x)
#endif

#define DP_CAPABILITY(x) DP_THREAD_ANNOTATION(capability(x))
#define DP_SCOPED_CAPABILITY DP_THREAD_ANNOTATION(scoped_lockable)
#define DP_GUARDED_BY(x) DP_THREAD_ANNOTATION(guarded_by(x))
#define DP_REQUIRES(...) DP_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define DP_EXCLUDES(...) DP_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define DP_ACQUIRE(...) DP_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define DP_RELEASE(...) DP_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define DP_NO_THREAD_SAFETY_ANALYSIS DP_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace dp {

class DP_CAPABILITY("mutex") Mutex {
 public:
  void Lock() DP_ACQUIRE() { mu_.lock(); }
  void Unlock() DP_RELEASE() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class DP_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) DP_ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() DP_RELEASE() { mu_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// Waits release `mu`, which the caller holds, and retake it. Wakes may be spurious: wait in a loop.
class CondVar {
 public:
  void Wait(Mutex& mu) DP_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }

  // Returns false when `timeout` passed without a wake.
  bool WaitFor(Mutex& mu, absl::Duration timeout) DP_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    // A day stands in for ever: std::chrono overflows on an infinite duration.
    const absl::Duration bounded = std::min(timeout, absl::Hours(24));
    const bool woken =
        cv_.wait_for(lock, absl::ToChronoNanoseconds(bounded)) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }

  // Waits until `ready()`, which is called with `mu` held. Returns false when `timeout` passed
  // first.
  template <typename Ready>
  bool WaitFor(Mutex& mu, absl::Duration timeout, Ready ready) DP_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    // The standard's loop reads the steady clock itself. A year stands in for ever, as above.
    const auto bounded = absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
    const bool is_ready = cv_.wait_for(lock, bounded, ready);
    lock.release();
    return is_ready;
  }

  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace dp
