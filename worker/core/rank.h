#pragma once

#include <compare>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"

// What a daemon is told about ranks, and the names it gives them. Plain values.

namespace dp::worker {

struct RankKey {
  JobId job;
  Generation generation;
  int rank = 0;

  auto operator<=>(const RankKey&) const = default;
};

// How a process ended.
struct Exit {
  enum class How { kCode, kSignal };
  How how = How::kCode;
  int number = 0;

  bool operator==(const Exit&) const = default;
};

// One rank that this worker has a slot for. How to run it is opaque to the core.
struct AssignedRank {
  RankKey key;
  bool stop = false;     // its end is wanted
  absl::Duration grace;  // how long it may go on after SIGTERM

  bool operator==(const AssignedRank&) const = default;
};

// The states of a rank that the coordinator is told of, in their order.
enum class Milestone { kNone, kStarted, kExited, kReleased };

}  // namespace dp::worker
