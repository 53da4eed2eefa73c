#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dp/distributed.h"
#include "dp/module.h"

namespace dp::distributed {

// Batch normalization by the mean and variance of the samples of all ranks, as PyTorch's
// SyncBatchNorm. For each channel, y = (x - mean) / sqrt(variance + eps) * weight + bias. Arrays
// are [samples x channels x positions]; positions is 1 for what a linear layer gives. Ranks may
// have different numbers of samples, also none. In training, forward and backward are collectives
// of the group: every rank calls them in the same order. Not thread-safe.
class SyncBatchNorm {
 public:
  struct Options {
    double eps = 1e-5;
    // The weight of a new batch in the running values; without it, all batches count alike.
    std::optional<double> momentum = 0.1;
    // Without one: the default group.
    std::optional<ProcessGroup> process_group = std::nullopt;
  };

  explicit SyncBatchNorm(size_t channels) : SyncBatchNorm(channels, Options()) {}
  // Errors: kWrongState process_group is an empty handle.
  SyncBatchNorm(size_t channels, const Options& options);

  // Training: normalizes by the batch of all ranks, and moves the running values to it.
  // Errors: kInvalidArgument the sizes of the arrays. kWrongState the ranks have fewer than two
  // values for a channel.
  void forward(std::span<const float> input, std::span<float> output, size_t samples);
  // Evaluation: normalizes by the running values. No collective.
  void evaluate(std::span<const float> input, std::span<float> output, size_t samples) const;
  // After a forward of the same `input`. Adds this rank's gradients of weight and bias to
  // weight_grad and bias_grad, which DistributedDataParallel averages.
  void backward(std::span<const float> input, std::span<const float> output_grad,
                std::span<float> input_grad, size_t samples);

  // For Module::parameters and Module::buffers.
  std::vector<float> weight, bias, weight_grad, bias_grad;
  std::vector<float> running_mean, running_var;
  int64_t num_batches_tracked = 0;

 private:
  void CheckSizes(size_t input, size_t output, size_t samples) const;

  const Options options_;
  ProcessGroup group_;
  // The last forward's, by channel.
  std::vector<double> mean_, inverse_deviation_;
  double count_ = 0;  // values of a channel, on all ranks
};

}  // namespace dp::distributed
