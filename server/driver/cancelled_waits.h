#pragma once

#include <cstddef>
#include <vector>

#include "server/driver/waiters.h"

namespace dp::server {

// Waits that were cancelled and have not ended yet. A cancellation bypasses the driver's queue, so
// it may overtake its wait. A ticket that is not parked is therefore kept until the driver has
// taken all calls that were queued at the cancellation. By then the wait has been parked or
// answered.
//
// Not thread-safe; owned by the driver's thread.
class CancelledWaits {
 public:
  explicit CancelledWaits(size_t queue_capacity) : queue_capacity_(queue_capacity) {}

  // Precondition: the waits of these tickets are queued, parked or answered.
  void Add(const std::vector<Waiters::Ticket>& tickets);
  // Ends the waits that are parked. The driver calls this after each batch: `taken` calls were
  // taken from the queue and parked, and the queue may hold `more`.
  void Cancel(Waiters& waiters, size_t taken, bool more);

  bool empty() const { return cancelled_.empty(); }

 private:
  struct Cancelled {
    Waiters::Ticket ticket;
    size_t ahead;  // at most this many queued calls are taken before its wait is parked
  };

  const size_t queue_capacity_;
  std::vector<Cancelled> cancelled_;
};

}  // namespace dp::server
