#include "store/wire/message_memory.h"

#include <algorithm>

#include "base/check.h"
#include "store/wire/fields.h"

namespace dp::wire {
namespace {

// The longest request, and the unit in which sessions round up claims.
constexpr size_t kReserveBytes = Limits().message_bytes + (size_t{64} << 10);
// Waits name keys, which are short: 10,000 ranks may each wait for a thousand keys.
constexpr size_t kWaitsShare = 4;
// Bytes read ahead of the answers: a quarter, beside the memory for requests.
constexpr size_t kAheadPart = 4;

}  // namespace

MessageMemory::MessageMemory(size_t bytes_max, std::string remedy)
    : bytes_max_(bytes_max),
      reserve_(std::min(kReserveBytes, bytes_max / 2)),
      waits_max_(kWaitsShare * bytes_max),
      ahead_max_(bytes_max / kAheadPart),
      remedy_(std::move(remedy)) {}

MessageMemory::Taken MessageMemory::Take(const Claim& claim, Granted granted) {
  DP_CHECK(claim.bytes > 0 && claim.bytes <= claim.whole && claim.bytes <= bytes_max_);
  DP_CHECK(claim.whole == claim.bytes || claim.whole <= reserve_);
  MutexLock lock(mu_);
  const Place place(!claim.begun, ++last_ticket_);
  if (waiting_.empty() || place < waiting_.begin()->first) {
    const size_t bytes = GrantFor(claim);
    taken_ += bytes;
    if (bytes > 0) return {.bytes = bytes};
  }
  waiting_.emplace(place, Waiting{claim, std::move(granted)});
  NoteShortage();
  return {.waits_as = place.second};
}

size_t MessageMemory::Collect(Ticket ticket) {
  MutexLock lock(mu_);
  const auto granted = granted_.extract(ticket);
  DP_CHECK(!granted.empty());
  return granted.mapped();
}

void MessageMemory::Withdraw(Ticket ticket) {
  std::vector<Granted> granted;
  {
    MutexLock lock(mu_);
    const auto had = granted_.extract(ticket);
    if (!had.empty()) taken_ -= had.mapped();
    waiting_.erase({false, ticket});
    waiting_.erase({true, ticket});
    granted = GrantNext();  // the next claims may need less
  }
  for (const Granted& each : granted) each();
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

size_t MessageMemory::GrantFor(const Claim& claim) const {
  if (taken_ + claim.bytes <= bytes_max_ - reserve_) return claim.bytes;
  if (taken_ + claim.whole <= bytes_max_) return claim.whole;
  return 0;
}

std::vector<MessageMemory::Granted> MessageMemory::GrantNext() {
  std::vector<Granted> granted;
  while (!waiting_.empty()) {
    const size_t bytes = GrantFor(waiting_.begin()->second.claim);
    if (bytes == 0) break;
    auto next = waiting_.extract(waiting_.begin());
    taken_ += bytes;
    granted_.emplace(next.key().second, bytes);
    granted.push_back(std::move(next.mapped().granted));
  }
  NoteShortage();
  return granted;
}

void MessageMemory::NoteShortage() {
  if (waiting_.empty()) {
    shortage_ = 0;
  } else if (shortage_ == 0) {
    shortage_ = ++shortages_;
  }
}

bool MessageMemory::TakeForWaits(size_t bytes) {
  MutexLock lock(mu_);
  if (bytes > waits_max_ - for_waits_) return false;
  for_waits_ += bytes;
  return true;
}

void MessageMemory::GiveOfWaits(size_t bytes) {
  MutexLock lock(mu_);
  DP_CHECK(bytes <= for_waits_);
  for_waits_ -= bytes;
}

size_t MessageMemory::taken() const {
  MutexLock lock(mu_);
  return taken_;
}

size_t MessageMemory::taken_for_waits() const {
  MutexLock lock(mu_);
  return for_waits_;
}

size_t MessageMemory::waiting() const {
  MutexLock lock(mu_);
  return waiting_.size();
}

}  // namespace dp::wire
