#include "server/driver/cancelled_waits.h"

#include <utility>

namespace dp::server {

void CancelledWaits::Add(const std::vector<Waiters::Ticket>& tickets) {
  for (const Waiters::Ticket ticket : tickets) cancelled_.push_back({ticket, queue_capacity_});
}

void CancelledWaits::Cancel(Waiters& waiters, size_t taken, bool more) {
  for (Cancelled& each : std::exchange(cancelled_, {})) {
    if (waiters.Cancel(each.ticket) || !more || each.ahead <= taken) continue;
    each.ahead -= taken;
    cancelled_.push_back(each);
  }
}

}  // namespace dp::server
