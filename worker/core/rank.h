#pragma once

#include "absl/time/time.h"
#include "base/rank.h"

// What a daemon is told about ranks, and the names it gives them. Plain values.

namespace dp::worker {

using dp::Exit;
using dp::RankKey;

// One rank that this worker has a slot for. How to run it is opaque to the core.
struct AssignedRank {
  RankKey key;
  bool stop = false;     // its end is wanted
  absl::Duration grace;  // how long it may go on after SIGTERM
  // Must not outlive touch with the coordinator, which may give its place to another one.
  bool stop_when_isolated = false;
  int slot = 0;
  // Tells the job from one of the same number, as a coordinator that has lost jobs gives again.
  // UnixEpoch: the coordinator does not say.
  absl::Time job_submitted_at;

  bool operator==(const AssignedRank&) const = default;
};

// The states of a rank that the coordinator is told of, in their order.
enum class Milestone { kNone, kStarted, kExited, kReleased };

}  // namespace dp::worker
