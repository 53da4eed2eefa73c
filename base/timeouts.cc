#include "base/timeouts.h"

#include <algorithm>

namespace dp {
namespace {

// What ranks of one failed collective take to tell the coordinator, one after the other.
constexpr absl::Duration kPeersSpeakWithin = absl::Seconds(2);
// However short the knob: a host that swaps may take so long to load a program.
constexpr absl::Duration kJoinMin = absl::Seconds(10);
// Loading data takes longer than any step: 5 minutes by default.
constexpr int kStorePerCollective = 10;
// Nobody is blamed when it runs out, so it may be long.
constexpr absl::Duration kRendezvousMin = absl::Minutes(10);

}  // namespace

Timeouts TimeoutsFor(absl::Duration detect_within, absl::Duration lease) {
  Timeouts timeouts;
  timeouts.isolation = lease * 4 / 5;
  timeouts.lease = lease;
  timeouts.collective = detect_within;
  timeouts.hang = detect_within + kPeersSpeakWithin;
  timeouts.join = std::max(timeouts.hang, kJoinMin);
  timeouts.store = kStorePerCollective * detect_within;
  timeouts.rendezvous = std::max(2 * timeouts.store, kRendezvousMin);
  return timeouts;
}

}  // namespace dp
