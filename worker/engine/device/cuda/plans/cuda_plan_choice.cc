#include "worker/engine/device/cuda/plans/cuda_plan_choice.h"

#include <algorithm>
#include <limits>

namespace dp::engine::cuda {
namespace {

// For an even number takes the lower of the two in the middle, because noise only ever adds time.
float Median(CandidateTimes times) {
  if (times.empty()) return std::numeric_limits<float>::infinity();
  const auto middle = times.begin() + static_cast<int>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// The candidates whose medians are at most so many times the least.
std::vector<int> Within(float factor, absl::Span<const CandidateTimes> candidates) {
  std::vector<float> medians;
  for (const CandidateTimes& times : candidates) medians.push_back(Median(times));
  float least = std::numeric_limits<float>::infinity();
  for (const float median : medians) least = std::min(least, median);
  std::vector<int> within;
  for (size_t i = 0; i < medians.size(); ++i)
    if (!candidates[i].empty() && medians[i] <= least * factor)
      within.push_back(static_cast<int>(i));
  return within;
}

}  // namespace

absl::optional<int> FastestCandidate(absl::Span<const CandidateTimes> candidates) {
  const std::vector<int> fastest = Within(1 + kTimingNoise, candidates);
  return fastest.empty() ? absl::nullopt : absl::make_optional(fastest.front());
}

std::vector<int> WorthTiming(absl::Span<const CandidateTimes> candidates) {
  return Within(kHopeless, candidates);
}

}  // namespace dp::engine::cuda
