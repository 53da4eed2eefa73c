#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace dp::server {

// Calls back at given times, on a thread of its own: ends streams that make no progress, and waits
// that have lasted long enough. Thread-safe.
class CallTimers {
 public:
  using Id = uint64_t;

  explicit CallTimers(const Clock& clock = Clock::Steady());
  ~CallTimers();

  // Calls `then` once, after `wait`, unless it is cancelled before. It must not block.
  Id After(absl::Duration wait, std::function<void()> then);
  // Without effect on a call that has begun. Does not wait for it.
  void Cancel(Id id);

 private:
  using At = std::pair<absl::Time, Id>;

  void Run();

  const Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  Id last_ DP_GUARDED_BY(mu_) = 0;
  std::map<At, std::function<void()>> due_ DP_GUARDED_BY(mu_);
  std::map<Id, absl::Time> at_ DP_GUARDED_BY(mu_);
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace dp::server
