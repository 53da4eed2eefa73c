#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "dp/v1/job_spec.pb.h"

// How workers share a job's ranks, and when the job grows (docs/scheduling.md). dpctl checks and
// shows these values; the coordinator records them. Pure.

namespace dp {

// The default of growAfter for elastic training with checkpoints.
inline constexpr absl::Duration kGrowAfter = absl::Minutes(10);

// `nodes` and `nprocPerNode` of the job's program; empty if the placement decides.
const std::string& NodesField(const v1::JobSpec& spec);
const std::string& RanksPerNodeField(const v1::JobSpec& spec);

// Whether generations of the job may have different numbers of workers.
bool IsElastic(const v1::JobSpec& spec);

// The fewest and most ranks that both fields allow. None while a field is not a number ("gpu",
// "cpu", "auto") or is invalid.
struct RankRange {
  int min = 1;
  int max = 1;
};
std::optional<RankRange> RanksOf(const v1::JobSpec& spec);

// Sets spec.grow_after to kGrowAfter for elastic training with checkpoints, unless it is set.
void FillGrowAfter(v1::JobSpec& spec);

}  // namespace dp
