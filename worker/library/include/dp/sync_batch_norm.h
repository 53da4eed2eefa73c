#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dp/distributed.h"
#include "dp/module.h"

namespace dp::library {
class BatchNorm;
}

namespace dp::distributed {

// Batch normalization by the mean and variance of the samples of all ranks, as PyTorch's
// SyncBatchNorm. For each channel, y = (x - mean) / sqrt(variance + eps) * weight + bias. Arrays
// are [samples x channels x positions]; positions is 1 for what a linear layer gives. Ranks may
// have different numbers of samples, also none. In training, forward and backward are collectives
// of the group: every rank calls them in the same order. All arrays are in the memory of the host,
// or with backend nccl in that of the group's GPU. There, calls return at once, as the group's
// operations do. Not thread-safe.
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
  // Errors: kInvalidArgument no channels, or an option is out of range. kWrongState process_group
  // is an empty handle. kUnsupported the group's backend is nccl, and this build has no kernels for
  // GPUs.
  SyncBatchNorm(size_t channels, const Options& options);
  SyncBatchNorm(SyncBatchNorm&&) noexcept;
  ~SyncBatchNorm();

  // Training: normalizes by the batch of all ranks, and moves the running values to it.
  // Errors: kInvalidArgument the sizes of the arrays, or their memory. kWrongState the ranks have
  // fewer than two values for a channel.
  void forward(std::span<const float> input, std::span<float> output, size_t samples);
  // Evaluation: normalizes by the running values. No collective.
  void evaluate(std::span<const float> input, std::span<float> output, size_t samples);
  // After a forward of the same `input`. Adds this rank's gradients of weight and bias to
  // weight_grad and bias_grad, which DistributedDataParallel averages. Errors: also kWrongState
  // there was no such forward.
  void backward(std::span<const float> input, std::span<const float> output_grad,
                std::span<float> input_grad, size_t samples);

  // For Module::parameters and Module::buffers: by channel, in the group's memory, which this
  // object owns. weight and running_var begin at 1, the others at 0.
  std::span<float> weight, bias, weight_grad, bias_grad;
  std::span<float> running_mean, running_var;
  int64_t num_batches_tracked = 0;  // in the host's memory

 private:
  library::BatchNorm& norm();

  std::unique_ptr<library::BatchNorm> norm_;
};

}  // namespace dp::distributed
