#pragma once

#include <cstddef>
#include <vector>

// Test values that show the order in which they were added.

namespace dp::engine {

// A value whose sums depend on their order: the ranks' magnitudes differ widely.
inline float AwkwardValue(int rank, size_t i) {
  const float scale[] = {1e8f, 1.0f, -1e8f, 3e-3f};
  return scale[rank % 4] * (1.0f + 0.1f * static_cast<float>(i % 17));
}

inline std::vector<float> AwkwardValues(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = AwkwardValue(rank, i);
  return values;
}

// The sum by definition: rank 0 first.
inline std::vector<float> SumInRankOrder(int size, size_t count) {
  std::vector<float> sum = AwkwardValues(0, count);
  for (int r = 1; r < size; ++r)
    for (size_t i = 0; i < count; ++i) sum[i] += AwkwardValue(r, i);
  return sum;
}

}  // namespace dp::engine
