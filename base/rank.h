#pragma once

#include <compare>

#include "base/field_list.h"
#include "base/id.h"

// Ranks and their exits, as the coordinator and the daemons identify them. Plain values.

namespace dp {

// One rank of one generation of a job.
struct RankKey {
  JobId job;
  Generation generation;
  int rank = 0;

  using Fields = FieldList<&RankKey::job, &RankKey::generation, &RankKey::rank>;

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

// The exit code of a rank of a train job that was asked to save a checkpoint and leave. The rank
// has not failed, and its job is not done. EX_TEMPFAIL of sysexits.h.
inline constexpr int kHandedOverExitCode = 75;

// The exit code of a rank of a train job that lost its peers and was not stopped in time. The rank
// is not to blame, and does not know which rank is. EX_PROTOCOL of sysexits.h.
inline constexpr int kLostPeersExitCode = 76;

}  // namespace dp
