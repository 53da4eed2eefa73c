#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace dp::fake_cuda {

// A stream that the fakes of CUDA and NCCL share on hosts without a GPU. Runs the functions that it
// is given one after another, on a thread of its own. Its memory is the host's. Thread-safe.
class HostStream {
 public:
  ~HostStream() {
    MutexLock lock(mu_);
    closed_ = true;
    moved_.NotifyAll();
  }

  void Give(std::function<void()> work) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    line_.push_back(std::move(work));
    ++given_;
    moved_.NotifyAll();
  }
  // The number of functions given so far.
  uint64_t given() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return given_;
  }
  bool Done(uint64_t count) const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return done_ >= count;
  }
  void Await(uint64_t count) const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (done_ < count) moved_.Wait(mu_);
  }

 private:
  void Run() DP_EXCLUDES(mu_) {
    while (const std::function<void()> work = Next()) {
      work();
      MutexLock lock(mu_);
      ++done_;
      moved_.NotifyAll();
    }
  }
  // Null when the stream is closed.
  std::function<void()> Next() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (line_.empty() && !closed_) moved_.Wait(mu_);
    if (line_.empty()) return nullptr;
    std::function<void()> next = std::move(line_.front());
    line_.pop_front();
    return next;
  }

  mutable Mutex mu_;
  mutable CondVar moved_;
  std::deque<std::function<void()>> line_ DP_GUARDED_BY(mu_);
  uint64_t given_ DP_GUARDED_BY(mu_) = 0;
  uint64_t done_ DP_GUARDED_BY(mu_) = 0;
  bool closed_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_{[this] { Run(); }};  // last: uses the other members
};

}  // namespace dp::fake_cuda
