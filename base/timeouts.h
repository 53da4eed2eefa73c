#pragma once

#include "absl/time/time.h"

namespace dp {

// The ladder of time limits that a job's parts hold to: whoever knows best what is wrong must be
// the first to lose patience, so that the right one is blamed. docs/failures.md tells it. In
// ascending order, as long as detectWithin is not below kLeaseMin.
struct Timeouts {
  // After so long without the coordinator a daemon ends the ranks that are not to outlive touch
  // with it (onIsolation: stop). Below the lease, by enough to see them dead before it has run out.
  absl::Duration isolation;
  // A worker that is silent for longer is lost: what the job asks for of the workers that it runs
  // on.
  absl::Duration lease;
  // A collective that is blocked for longer fails.
  absl::Duration collective;
  // Then a rank that was waited for is blamed, at the latest: the others have had time to speak up.
  absl::Duration hang;
  // So is a train job's rank whose process runs and has not joined, which it does first of all,
  // counted from when the last rank was seen to run.
  absl::Duration join;
  // A rank waits for so long for what a peer is to put into the store, which loads data first.
  absl::Duration store;
  // And for so long for all its peers to come: they start at other times.
  absl::Duration rendezvous;
};

// No job makes a lease shorter than this: a host that swaps, or a coordinator whose disk is slow,
// may be silent for a second.
inline constexpr absl::Duration kLeaseMin = absl::Seconds(2);

// `detect_within` is the job's one knob, `lease_max` the lease where no job asks for a shorter one.
// Pure, as are the next two.
Timeouts TimeoutsFor(absl::Duration detect_within, absl::Duration lease_max);

// The lease that has a dead host noticed, and acted on, within `detect_within`.
absl::Duration LeaseWithin(absl::Duration detect_within, absl::Duration lease_max);

// After how long without the coordinator a daemon that holds such a lease acts for itself.
absl::Duration IsolationWithin(absl::Duration lease);

}  // namespace dp
