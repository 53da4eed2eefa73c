#pragma once

#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace dp::engine::cuda {

// How long each run of one candidate took, in milliseconds; empty if it cannot be run.
using CandidateTimes = std::vector<float>;

// The index of the candidate to keep: the first whose median is within kTimingNoise of the least.
// The library prefers earlier candidates. None if no candidate can be run. Pure: equal times give
// equal choices.
absl::optional<int> FastestCandidate(absl::Span<const CandidateTimes> candidates);

// By how much two runs of the same kernel differ on a card that does nothing else.
inline constexpr float kTimingNoise = 0.02f;

}  // namespace dp::engine::cuda
