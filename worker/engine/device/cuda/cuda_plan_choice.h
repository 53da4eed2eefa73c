#pragma once

#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace dp::engine::cuda {

// How long each run of one candidate took, in milliseconds; empty if it cannot be run.
using CandidateTimes = std::vector<float>;

// The candidate to keep, by its place: of those whose median is within kTimingNoise of the least,
// the first, which is the one the library would rather have. None if none can be run. Pure: equal
// times give equal choices.
absl::optional<int> FastestCandidate(absl::Span<const CandidateTimes> candidates);

// Two runs of the same kernel differ by this much on a card that does nothing else.
inline constexpr float kTimingNoise = 0.02f;

}  // namespace dp::engine::cuda
