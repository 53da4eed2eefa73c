#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "dp/v1/job_spec.pb.h"

// How workers share the ranks of a job, and when it grows (docs/scheduling.md), for dpctl, which
// checks and shows it, and the coordinator, which records it. Pure.

namespace dp {

// What an elastic training gets that makes checkpoints and does not say.
inline constexpr absl::Duration kGrowAfter = absl::Minutes(10);

// `nodes` and `nprocPerNode` of the job's program; empty where it leaves them to the placement.
const std::string& NodesField(const v1::JobSpec& spec);
const std::string& RanksPerNodeField(const v1::JobSpec& spec);

// Whether its generations may have different numbers of workers.
bool IsElastic(const v1::JobSpec& spec);

// How many ranks both fields make, at least and at most; none where one of them is no number yet,
// or no good.
struct RankRange {
  int min = 1;
  int max = 1;
};
std::optional<RankRange> RanksOf(const v1::JobSpec& spec);

// Fills in spec.grow_after.
void FillGrowAfter(v1::JobSpec& spec);

}  // namespace dp
