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

// The candidates that deserve more runs, in order, judged by one run each: those within
// kHopeless of the least. Pure.
std::vector<int> WorthTiming(absl::Span<const CandidateTimes> candidates);

// No number of further runs makes a candidate the fastest that took so many times the least.
inline constexpr float kHopeless = 1.3f;

// By how much two runs of the same kernel differ on a card that does nothing else.
inline constexpr float kTimingNoise = 0.02f;

}  // namespace dp::engine::cuda
