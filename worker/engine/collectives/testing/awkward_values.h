#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/collectives/reduce/reduction.h"

// Test values that show the order in which they were added. Arrays of millions are made and
// compared by whole blocks, because tests are built without optimization.

namespace dp::engine {

// The values of a rank, and therefore their sums, repeat with this period.
inline constexpr size_t kAwkwardPeriod = 17;

// A value whose sums depend on their order: the ranks' magnitudes differ widely.
inline float AwkwardValue(int rank, size_t i) {
  const float scale[] = {1e8f, 1.0f, -1e8f, 3e-3f};
  return scale[rank % 4] * (1.0f + 0.1f * static_cast<float>(i % kAwkwardPeriod));
}

// An array of `count` values, the first of which `value` gives. The others are copies of these.
template <typename Value>
std::vector<float> AwkwardArray(size_t count, const Value& value) {
  std::vector<float> values(count);
  size_t done = std::min(count, kAwkwardPeriod);
  for (size_t i = 0; i < done; ++i) values[i] = value(i);
  for (; done < count; done *= 2)
    std::copy_n(values.data(), std::min(done, count - done), values.data() + done);
  return values;
}

inline std::vector<float> AwkwardValues(int rank, size_t count) {
  return AwkwardArray(count, [&](size_t i) { return AwkwardValue(rank, i); });
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
  return AwkwardArray(count, [&](size_t i) { return SumOfRanks(0, ranks, i, order); });
}

// Whether all bits are the same.
template <typename T>
bool SameBits(absl::Span<const T> one, absl::Span<const T> other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
}
inline bool SameBits(const std::vector<float>& one, const std::vector<float>& other) {
  return SameBits<float>(one, other);
}

// Whether every value is this one, to the last bit.
template <typename T>
bool AllAre(absl::Span<const T> values, T value) {
  return values.empty() || (SameBits<T>({&value, 1}, values.first(1)) &&
                            SameBits(values.first(values.size() - 1), values.subspan(1)));
}

}  // namespace dp::engine
