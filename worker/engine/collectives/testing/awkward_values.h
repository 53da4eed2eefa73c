#pragma once

#include <cstddef>
#include <vector>

#include "worker/engine/collectives/reduce/reduction.h"

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

// The sum of the ranks from `first` on, by the definition of the order.
inline float SumOfRanks(int first, int ranks, size_t i, ReduceOrder order) {
  if (ranks == 1) return AwkwardValue(first, i);
  int left = 1;  // the largest power of two below `ranks`
  while (left * 2 < ranks) left *= 2;
  if (order == ReduceOrder::kRank) left = ranks - 1;
  return SumOfRanks(first, left, i, order) + SumOfRanks(first + left, ranks - left, i, order);
}

inline std::vector<float> OrderedSum(int ranks, size_t count,
                                     ReduceOrder order = ReduceOrder::kTree) {
  std::vector<float> sum(count);
  for (size_t i = 0; i < count; ++i) sum[i] = SumOfRanks(0, ranks, i, order);
  return sum;
}

}  // namespace dp::engine
