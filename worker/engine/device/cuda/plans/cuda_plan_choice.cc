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

}  // namespace

absl::optional<int> FastestCandidate(absl::Span<const CandidateTimes> candidates) {
  std::vector<float> medians;
  for (const CandidateTimes& times : candidates) medians.push_back(Median(times));
  float least = std::numeric_limits<float>::infinity();
  for (const float median : medians) least = std::min(least, median);
  for (size_t i = 0; i < medians.size(); ++i) {
    if (!candidates[i].empty() && medians[i] <= least * (1 + kTimingNoise)) {
      return static_cast<int>(i);
    }
  }
  return absl::nullopt;
}

}  // namespace dp::engine::cuda
