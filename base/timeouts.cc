#include "base/timeouts.h"

#include <algorithm>

namespace dp {
namespace {

// Time for the ranks of a failed collective to call the coordinator, one after the other.
constexpr absl::Duration kPeersSpeakWithin = absl::Seconds(2);
// However short detectWithin is: a swapping host may take this long to load a program.
constexpr absl::Duration kJoinMin = absl::Seconds(10);
// Loading data takes longer than any step: 5 minutes by default.
constexpr int kStorePerCollective = 10;
// Nobody is blamed when this limit passes, so it may be long.
constexpr absl::Duration kRendezvousMin = absl::Minutes(10);

}  // namespace

absl::Duration IsolationWithin(absl::Duration lease) { return lease * 4 / 5; }

// The coordinator checks four times a lease, so it notices within 5/4 of a lease. A lease is in
// whole milliseconds, so that clocks can represent the limits that follow.
absl::Duration LeaseWithin(absl::Duration detect_within, absl::Duration lease_max) {
  if (detect_within == absl::InfiniteDuration()) return lease_max;
  const absl::Duration asked = absl::Trunc(detect_within * 4 / 5, absl::Milliseconds(1));
  return std::min(std::max(asked, kLeaseMin), lease_max);
}

Timeouts TimeoutsFor(absl::Duration detect_within, absl::Duration lease_max) {
  Timeouts timeouts;
  timeouts.lease = LeaseWithin(detect_within, lease_max);
  timeouts.isolation = IsolationWithin(timeouts.lease);
  timeouts.collective = detect_within;
  timeouts.hang = detect_within + kPeersSpeakWithin;
  timeouts.join = std::max(timeouts.hang, kJoinMin);
  timeouts.store = kStorePerCollective * detect_within;
  timeouts.rendezvous = std::max(2 * timeouts.store, kRendezvousMin);
  return timeouts;
}

}  // namespace dp
