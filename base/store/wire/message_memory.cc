#include "base/store/wire/message_memory.h"

#include <utility>

#include "base/check.h"

namespace dp::wire {

MessageMemory::Ticket MessageMemory::Take(size_t bytes, Granted granted) {
  MutexLock lock(mu_);
  DP_CHECK(bytes <= bytes_max_);
  if (waiting_.empty() && Fits(bytes)) {
    taken_ += bytes;
    return 0;
  }
  waiting_.emplace(++last_ticket_, Claim{bytes, std::move(granted)});
  waits_ = true;
  return last_ticket_;
}

bool MessageMemory::Withdraw(Ticket ticket) {
  std::vector<Granted> granted;
  {
    MutexLock lock(mu_);
    if (waiting_.erase(ticket) == 0) return false;
    granted = GrantNext();  // those behind it may be smaller
  }
  for (const Granted& each : granted) each();
  return true;
}

void MessageMemory::Give(size_t bytes) {
  std::vector<Granted> granted;
  {
    MutexLock lock(mu_);
    DP_CHECK(bytes <= taken_);
    taken_ -= bytes;
    granted = GrantNext();
  }
  for (const Granted& each : granted) each();
}

std::vector<MessageMemory::Granted> MessageMemory::GrantNext() {
  std::vector<Granted> granted;
  while (!waiting_.empty() && Fits(waiting_.begin()->second.bytes)) {
    auto claim = waiting_.extract(waiting_.begin());
    taken_ += claim.mapped().bytes;
    granted.push_back(std::move(claim.mapped().granted));
  }
  waits_ = !waiting_.empty();
  return granted;
}

size_t MessageMemory::taken() const {
  MutexLock lock(mu_);
  return taken_;
}

}  // namespace dp::wire
