#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/mutex.h"

namespace dp::wire {

// Memory for what clients have sent and the store has not answered, shared by all servers of a
// process. Whoever finds none waits, in order of asking, until others give theirs back.
//
// Thread-safe. Outlives the servers that use it.
class MessageMemory {
 public:
  // Names a claim that waits; 0 names none.
  using Ticket = uint64_t;
  // Called once, on the thread that gives memory back, when the claim has its memory. Must not
  // block, and must not call back into this object.
  using Granted = std::function<void()>;

  // A claim for more than `bytes_max` would wait for ever, so the owner bounds messages.
  explicit MessageMemory(size_t bytes_max) : bytes_max_(bytes_max) {}
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;

  // Takes `bytes` at once and returns 0, or returns the ticket of a claim that waits.
  Ticket Take(size_t bytes, Granted granted) DP_EXCLUDES(mu_);
  // Withdraws a claim. Returns false where it has its memory already, which the caller gives back.
  bool Withdraw(Ticket ticket) DP_EXCLUDES(mu_);
  void Give(size_t bytes) DP_EXCLUDES(mu_);

  // Whether a claim waits.
  bool short_of_memory() const { return waits_.load(std::memory_order_relaxed); }
  size_t bytes_max() const { return bytes_max_; }
  size_t taken() const DP_EXCLUDES(mu_);

 private:
  struct Claim {
    size_t bytes = 0;
    Granted granted;
  };

  std::vector<Granted> GrantNext() DP_REQUIRES(mu_);
  bool Fits(size_t bytes) const DP_REQUIRES(mu_) { return bytes <= bytes_max_ - taken_; }

  const size_t bytes_max_;
  std::atomic<bool> waits_{false};  // whether waiting_ has any
  mutable Mutex mu_;
  size_t taken_ DP_GUARDED_BY(mu_) = 0;
  Ticket last_ticket_ DP_GUARDED_BY(mu_) = 0;
  std::map<Ticket, Claim> waiting_ DP_GUARDED_BY(mu_);  // in order of asking
};

}  // namespace dp::wire
