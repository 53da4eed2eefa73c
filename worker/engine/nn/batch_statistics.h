#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace dp::engine {

// An array of floats: [samples x channels x positions].
struct ChannelShape {
  size_t samples = 0;
  size_t channels = 0;
  size_t positions = 0;

  bool operator==(const ChannelShape&) const = default;
  size_t size() const { return samples * channels * positions; }
};

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

// The statistics by which a batch is normalized, each by channel.
struct ChannelStatistics {
  double count = 0;  // how many values a channel has
  const double* mean = nullptr;
  const double* inverse_deviation = nullptr;
};

// The three loops of batch normalization. Arrays of floats have the shape; those of weights and
// biases, and `sums`, are by channel.

// (in - mean) * inverse deviation * weight + bias.
void NormalizeChannels(const ChannelShape& shape, const float* in, const float* weight,
                       const float* bias, const ChannelStatistics& by, float* out);
// sums[c] is the sum of the output's gradients; sums[channels + c] that of these times the
// normalized input.
void SumChannelGradients(const ChannelShape& shape, const float* in, const float* out_grad,
                         const ChannelStatistics& by, double* sums);
// `sums` are those of the whole batch, of all ranks.
void ChannelInputGradient(const ChannelShape& shape, const float* in, const float* out_grad,
                          const float* weight, const ChannelStatistics& by, const double* sums,
                          float* in_grad);

}  // namespace dp::engine
