#pragma once

#include "absl/time/time.h"

namespace dp {

// A job's time limits (docs/failures.md). The part that knows best what is wrong must time out
// first, so that the right part is blamed. In ascending order, as long as detectWithin is not below
// kLeaseMin.
struct Timeouts {
  // After this long without the coordinator a daemon ends the ranks with onIsolation: stop. Shorter
  // than the lease, by enough to see these ranks dead before the lease expires.
  absl::Duration isolation;
  // A worker that is silent for longer is lost. The job asks for this lease on the workers that it
  // runs on.
  absl::Duration lease;
  // A collective that blocks longer fails.
  absl::Duration collective;
  // By then a rank that was waited for is blamed, at the latest: its peers have had time to name
  // it.
  absl::Duration hang;
  // A train job's rank whose process runs but has not joined by then is blamed too: a rank joins
  // before anything else. Counted from when the last rank was seen to run.
  absl::Duration join;
  // How long a rank waits for a peer to set a value in the store; the peer loads data first.
  absl::Duration store;
  // How long a rank waits for all its peers to come: they start at different times.
  absl::Duration rendezvous;
};

// No job makes a lease shorter than this: a swapping host, or a coordinator with a slow disk, may
// be silent for a second.
inline constexpr absl::Duration kLeaseMin = absl::Seconds(2);

// `detect_within` is the job's one setting. `lease_max` is the lease if no job asks for a shorter
// one. Pure, as are the next two.
Timeouts TimeoutsFor(absl::Duration detect_within, absl::Duration lease_max);

// The lease with which a dead host is noticed, and acted on, within `detect_within`.
absl::Duration LeaseWithin(absl::Duration detect_within, absl::Duration lease_max);

// How long a daemon with this lease waits for the coordinator before it acts on its own.
absl::Duration IsolationWithin(absl::Duration lease);

}  // namespace dp
