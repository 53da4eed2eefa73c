#include "base/timeouts.h"

#include <algorithm>

namespace dp {
namespace {

// What ranks of one failed collective take to tell the coordinator, one after the other.
constexpr absl::Duration kPeersSpeakWithin = absl::Seconds(2);
// However short the knob: a host that swaps is no failure to find each other.
constexpr absl::Duration kStoreMin = absl::Minutes(5);
constexpr absl::Duration kRendezvousMin = absl::Minutes(10);

}  // namespace

Timeouts TimeoutsFor(absl::Duration detect_within, absl::Duration lease) {
  Timeouts timeouts;
  timeouts.isolation = lease * 4 / 5;
  timeouts.lease = lease;
  timeouts.collective = detect_within;
  timeouts.hang = detect_within + kPeersSpeakWithin;
  timeouts.store = std::max(2 * timeouts.hang, kStoreMin);
  timeouts.rendezvous = std::max(2 * timeouts.store, kRendezvousMin);
  return timeouts;
}

}  // namespace dp
