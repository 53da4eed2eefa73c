#include "worker/engine/nn/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace dp::engine {
namespace {

// The sum of `term(0)` to `term(size - 1)`, by lanes.
template <typename Term>
double SumByLanes(int64_t size, const Term& term) {
  std::array<double, kNormLanes> lanes = {};
  for (int64_t first = 0; first < size; first += kNormLanes) {
    const int64_t count = std::min<int64_t>(kNormLanes, size - first);
    for (int64_t lane = 0; lane < count; ++lane) lanes[lane] += term(first + lane);
  }
  for (int distance = kNormLanes / 2; distance > 0; distance /= 2) {
    for (int lane = 0; lane < distance; ++lane) lanes[lane] += lanes[lane + distance];
  }
  return lanes[0];
}

double SumSquares(absl::Span<const float> values) {
  const float* const first = values.data();
  return SumByLanes(static_cast<int64_t>(values.size()), [first](int64_t i) {
    const double value = first[i];
    return value * value;
  });
}

}  // namespace

float GradientNorm(absl::Span<const ValueRange> ranges, absl::Span<const float> gradients) {
  std::vector<double> chunks;
  for (const ValueRange& range : ranges) {
    for (int64_t first = 0; first < range.size; first += kNormChunk) {
      chunks.push_back(SumSquares(
          gradients.subspan(range.first + first, std::min(kNormChunk, range.size - first))));
    }
  }
  return static_cast<float>(std::sqrt(
      SumByLanes(static_cast<int64_t>(chunks.size()), [&](int64_t i) { return chunks[i]; })));
}

}  // namespace dp::engine
