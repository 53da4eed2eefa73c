#include "worker/engine/nn/batch_statistics.h"

#include <algorithm>

namespace dp::engine {

std::vector<double> BatchStatistics::Packed() const {
  std::vector<double> packed = {count};
  packed.insert(packed.end(), mean.begin(), mean.end());
  packed.insert(packed.end(), squares.begin(), squares.end());
  return packed;
}

void ForEachChannel(size_t samples, size_t channels, size_t size,
                    const std::function<void(size_t channel, size_t begin, size_t end)>& each) {
  const size_t rows = samples * channels, positions = rows == 0 ? 0 : size / rows;
  for (size_t row = 0; row < rows; ++row)
    each(row % channels, row * positions, (row + 1) * positions);
}

BatchStatistics SumUp(std::span<const float> values, size_t samples, size_t channels) {
  BatchStatistics batch{.mean = std::vector<double>(channels),
                        .squares = std::vector<double>(channels)};
  if (samples == 0) return batch;
  batch.count = static_cast<double>(values.size() / channels);
  ForEachChannel(samples, channels, values.size(), [&](size_t c, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) batch.mean[c] += values[i];
  });
  for (double& mean : batch.mean) mean /= batch.count;
  ForEachChannel(samples, channels, values.size(), [&](size_t c, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const double distance = values[i] - batch.mean[c];
      batch.squares[c] += distance * distance;
    }
  });
  return batch;
}

BatchStatistics Combine(std::span<const double> packed, size_t channels) {
  const size_t width = BatchStatistics::PackedSize(channels);
  BatchStatistics all{.mean = std::vector<double>(channels),
                      .squares = std::vector<double>(channels)};
  for (size_t at = 0; at + width <= packed.size(); at += width) {
    const double count = packed[at], total = all.count + count;
    if (count == 0) continue;
    for (size_t c = 0; c < channels; ++c) {
      const double distance = packed[at + 1 + c] - all.mean[c];
      all.mean[c] += distance * count / total;
      all.squares[c] +=
          packed[at + 1 + channels + c] + distance * distance * all.count * count / total;
    }
    all.count = total;
  }
  return all;
}

void NormalizeChannels(const ChannelShape& shape, const float* in, const float* weight,
                       const float* bias, const ChannelStatistics& by, float* out) {
  ForEachChannel(shape.samples, shape.channels, shape.size(),
                 [&](size_t c, size_t begin, size_t end) {
                   const double slope = weight[c] * by.inverse_deviation[c];
                   for (size_t i = begin; i < end; ++i) {
                     out[i] = static_cast<float>((in[i] - by.mean[c]) * slope + bias[c]);
                   }
                 });
}

void SumChannelGradients(const ChannelShape& shape, const float* in, const float* out_grad,
                         const ChannelStatistics& by, double* sums) {
  std::fill(sums, sums + 2 * shape.channels, 0.0);
  ForEachChannel(
      shape.samples, shape.channels, shape.size(), [&](size_t c, size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          sums[c] += out_grad[i];
          sums[shape.channels + c] += out_grad[i] * (in[i] - by.mean[c]) * by.inverse_deviation[c];
        }
      });
}

void ChannelInputGradient(const ChannelShape& shape, const float* in, const float* out_grad,
                          const float* weight, const ChannelStatistics& by, const double* sums,
                          float* in_grad) {
  ForEachChannel(
      shape.samples, shape.channels, shape.size(), [&](size_t c, size_t begin, size_t end) {
        const double mean = sums[c] / by.count;
        const double slope = sums[shape.channels + c] / by.count;
        const double scale = weight[c] * by.inverse_deviation[c];
        for (size_t i = begin; i < end; ++i) {
          const double normalized = (in[i] - by.mean[c]) * by.inverse_deviation[c];
          in_grad[i] = static_cast<float>(scale * (out_grad[i] - mean - normalized * slope));
        }
      });
}

}  // namespace dp::engine
