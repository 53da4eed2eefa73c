#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace dp::library {

// The values of each channel in a batch: how many, their mean, and the sum of the squares of their
// distances from it. Pure.
struct BatchStatistics {
  double count = 0;
  std::vector<double> mean;     // by channel
  std::vector<double> squares;  // by channel

  // In one array: the count, the means, the squares.
  static size_t PackedSize(size_t channels) { return 1 + 2 * channels; }
  std::vector<double> Packed() const;
};

// Calls `each` with a channel and the range of its values, for each sample of an array of
// [samples x channels x positions].
void ForEachChannel(size_t samples, size_t channels, size_t size,
                    const std::function<void(size_t channel, size_t begin, size_t end)>& each);

BatchStatistics SumUp(std::span<const float> values, size_t samples, size_t channels);
// Several batches as one, each packed, in the order given. The formula is that of Chan, Golub
// and LeVeque (1979), which does not cancel where means are large.
BatchStatistics Combine(std::span<const double> packed, size_t channels);

}  // namespace dp::library
