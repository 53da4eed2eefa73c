#pragma once

#include "absl/time/time.h"
#include "base/rank.h"

// Ranks as the coordinator assigns them to a daemon. Plain values.

namespace dp::worker {

using dp::Exit;
using dp::RankKey;

// A rank that has a slot on this worker. How to run it is opaque to the core.
struct AssignedRank {
  RankKey key;
  bool stop = false;     // the rank must end
  absl::Duration grace;  // how long it may run on after SIGTERM
  // Must not outlive contact with the coordinator, which may then place it elsewhere.
  bool stop_when_isolated = false;
  int slot = 0;
  // Distinguishes jobs of the same number: a coordinator that has lost jobs reuses numbers.
  // UnixEpoch: the coordinator does not say.
  absl::Time job_submitted_at;

  bool operator==(const AssignedRank&) const = default;
};

// The states of a rank that the daemon reports to the coordinator, in order.
enum class Milestone { kNone, kStarted, kExited, kReleased };

}  // namespace dp::worker
