#pragma once

#include <cstddef>
#include <vector>

#include "server/shell/waiters.h"

namespace dp::server {

// The waits that were given up and have not been ended yet. A cancellation does not go through the
// driver's queue, so it may overtake its wait. A ticket that is not parked is therefore kept until
// all calls that were queued when it came have been taken; by then the wait has been answered.
//
// Not thread-safe; owned by the driver's thread.
class CancelledWaits {
 public:
  explicit CancelledWaits(size_t queue_capacity) : queue_capacity_(queue_capacity) {}

  // The waits of these tickets are queued, parked or answered.
  void Add(const std::vector<Waiters::Ticket>& tickets);
  // Ends the waits that are parked. To be called after each batch: `taken` calls were taken from
  // the queue and parked, and there may be `more` in it.
  void Cancel(Waiters& waiters, size_t taken, bool more);

  bool empty() const { return cancelled_.empty(); }

 private:
  struct Cancelled {
    Waiters::Ticket ticket;
    size_t ahead;  // so many queued calls, at most, are taken before its wait is parked
  };

  const size_t queue_capacity_;
  std::vector<Cancelled> cancelled_;
};

}  // namespace dp::server
