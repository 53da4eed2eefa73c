#include "dp/sync_batch_norm.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/library/batch_statistics.h"

namespace dp::distributed {

using library::BatchStatistics;

SyncBatchNorm::SyncBatchNorm(size_t channels, const Options& options)
    : weight(channels, 1),
      bias(channels),
      weight_grad(channels),
      bias_grad(channels),
      running_mean(channels),
      running_var(channels, 1),
      options_(options),
      group_(library::GroupOrDefault(options.process_group)),
      mean_(channels),
      inverse_deviation_(channels) {}

void SyncBatchNorm::CheckSizes(size_t input, size_t output, size_t samples) const {
  const size_t channels = weight.size();
  if (input == output && (samples == 0 ? input == 0 : input % (samples * channels) == 0)) return;
  throw DistError(ErrorKind::kInvalidArgument,
                  absl::StrCat("SyncBatchNorm: arrays of ", input, " and ", output, " values for ",
                               samples, " samples of ", channels,
                               " channels; give both samples x channels x positions"));
}

void SyncBatchNorm::forward(std::span<const float> input, std::span<float> output, size_t samples) {
  CheckSizes(input.size(), output.size(), samples);
  const size_t channels = weight.size();
  std::vector<double> mine = library::SumUp(input, samples, channels).Packed();
  std::vector<double> all(mine.size() * static_cast<size_t>(group_.size()));
  all_gather(all, mine, group_);
  const BatchStatistics batch = library::Combine(all, channels);
  if (batch.count < 2) {
    throw DistError(ErrorKind::kWrongState,
                    absl::StrCat("SyncBatchNorm: all ranks together have ", batch.count,
                                 " values for a channel; give two at least"));
  }
  count_ = batch.count;
  mean_ = batch.mean;
  num_batches_tracked += 1;
  const double share = options_.momentum.value_or(1.0 / static_cast<double>(num_batches_tracked));
  for (size_t c = 0; c < channels; ++c) {
    const double variance = batch.squares[c] / batch.count;
    inverse_deviation_[c] = 1 / std::sqrt(variance + options_.eps);
    const auto move = [share](float& running, double to) {
      running = static_cast<float>((1 - share) * running + share * to);
    };
    move(running_mean[c], batch.mean[c]);
    move(running_var[c], batch.squares[c] / (batch.count - 1));
  }
  library::ForEachChannel(samples, channels, input.size(), [&](size_t c, size_t begin, size_t end) {
    const auto scale = static_cast<float>(weight[c] * inverse_deviation_[c]);
    const auto shift = static_cast<float>(bias[c] - mean_[c] * weight[c] * inverse_deviation_[c]);
    for (size_t i = begin; i < end; ++i) output[i] = input[i] * scale + shift;
  });
}

void SyncBatchNorm::evaluate(std::span<const float> input, std::span<float> output,
                             size_t samples) const {
  CheckSizes(input.size(), output.size(), samples);
  library::ForEachChannel(
      samples, weight.size(), input.size(), [&](size_t c, size_t begin, size_t end) {
        const double scale = weight[c] / std::sqrt(running_var[c] + options_.eps);
        const auto shift = static_cast<float>(bias[c] - running_mean[c] * scale);
        for (size_t i = begin; i < end; ++i)
          output[i] = input[i] * static_cast<float>(scale) + shift;
      });
}

void SyncBatchNorm::backward(std::span<const float> input, std::span<const float> output_grad,
                             std::span<float> input_grad, size_t samples) {
  CheckSizes(input.size(), output_grad.size(), samples);
  CheckSizes(input.size(), input_grad.size(), samples);
  const size_t channels = weight.size();
  // By channel: the sum of the output's gradients, then of these times the normalized input.
  std::vector<double> sums(2 * channels);
  library::ForEachChannel(samples, channels, input.size(), [&](size_t c, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      sums[c] += output_grad[i];
      sums[channels + c] += output_grad[i] * (input[i] - mean_[c]) * inverse_deviation_[c];
    }
  });
  for (size_t c = 0; c < channels; ++c) {
    bias_grad[c] += static_cast<float>(sums[c]);
    weight_grad[c] += static_cast<float>(sums[channels + c]);
  }
  all_reduce(sums, ReduceOp::kSum, group_);
  library::ForEachChannel(samples, channels, input.size(), [&](size_t c, size_t begin, size_t end) {
    const double mean = sums[c] / count_, slope = sums[channels + c] / count_;
    const double scale = weight[c] * inverse_deviation_[c];
    for (size_t i = begin; i < end; ++i) {
      const double normalized = (input[i] - mean_[c]) * inverse_deviation_[c];
      input_grad[i] = static_cast<float>(scale * (output_grad[i] - mean - normalized * slope));
    }
  });
}

}  // namespace dp::distributed
