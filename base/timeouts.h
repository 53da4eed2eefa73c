#pragma once

#include "absl/time/time.h"

namespace dp {

// The ladder of time limits that a job's parts hold to: whoever knows best what is wrong must be
// the first to lose patience, so that the right one is blamed. docs/failures.md tells it. In
// ascending order, as long as detectWithin is not below the lease.
struct Timeouts {
  // After so long without the coordinator a daemon ends the ranks that are not to outlive touch
  // with it (onIsolation: stop). Below the lease, by enough to see them dead before it has run out.
  absl::Duration isolation;
  // A worker that is silent for longer is lost. The coordinator's own, not a job's.
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

// `detect_within` is the job's one knob. Pure.
Timeouts TimeoutsFor(absl::Duration detect_within, absl::Duration lease);

}  // namespace dp
