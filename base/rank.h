#pragma once

#include <compare>

#include "base/id.h"

// How coordinator and daemon name a rank and say how it ended. Plain values.

namespace dp {

// One rank of one generation of a job.
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

  bool success() const { return how == How::kCode && number == 0; }
  bool operator==(const Exit&) const = default;
};

// With which a rank of a train job exits that was asked to save a checkpoint and leave: it has not
// failed, and its job is not done. EX_TEMPFAIL of sysexits.h.
inline constexpr int kHandedOverExitCode = 75;

// With which a rank of a train job exits that has lost its peers, where nobody came to stop it in
// time: it is not the one to blame, and does not know who is. EX_PROTOCOL of sysexits.h.
inline constexpr int kLostPeersExitCode = 76;

}  // namespace dp
