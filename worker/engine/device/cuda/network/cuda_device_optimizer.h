#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/arrays/cuda_scale.h"
#include "worker/engine/device/cuda/kernels/cuda_optimizer.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

// An optimizer whose state, learning rate, next step number and factor of the gradients lie on the
// GPU, so that a step can be captured. Not thread-safe.
class CudaOptimizer : public Optimizer {
 public:
  // The part that all optimizers share.
  struct Shared {
    absl::Span<float> values;
    absl::Span<const float> gradients;
    double learning_rate = 0;  // of the options
    double clip_norm = 0;
    DeviceBuffer rate;     // a double: the learning rate of the next step
    DeviceBuffer clipped;  // a ClippedNorm
    DeviceBuffer sums;     // with clip_norm: a double for each chunk of the gradients
    std::vector<ValueRange> trained;
    int64_t statistics_begin = 0;  // running statistics are the values from here on
    DeviceBuffer groups;           // UpdateGroup
    DeviceBuffer of_blocks;        // uint8
    double average_decay = 0;
    DeviceBuffer rest;     // a double: the part of the next values that the average takes
    DeviceBuffer average;  // with average_decay
  };
  // Errors: ResourceExhausted.
  static absl::StatusOr<Shared> MakeShared(DeviceContext& context, const OptimizerOptions& options,
                                           const ParameterLayout& layout, absl::Span<float> values,
                                           absl::Span<const float> gradients);

  CudaOptimizer(DeviceContext& context, Shared shared);

  void Step(const OptimizerStep& step) final;
  std::vector<OptimizerState> state() final;
  float gradient_norm() const final;

  // Makes `step` the next queued step. Queues numbers that the device's memory lacks. These are a
  // learning rate that has changed, the average's rest, and a step number other than the
  // device's own count. Must not be captured.
  absl::Status Prepare(const OptimizerStep& step);
  // Queues the work that all updates of a step share, once before them. With clips(), all gradients
  // must be complete. May be captured.
  absl::Status QueueFactors();
  // Queues the update of a range of values, which begins with a parameter. Each value is updated
  // once in a step. `rounded`, where not null, receives the new values in bf16. May be captured.
  absl::Status QueueUpdate(ValueRange range, bf16* rounded);
  // Queues both, for all values.
  absl::Status Queue(bf16* rounded);

  bool clips() const { return shared_.clip_norm > 0; }
  // Where QueueFactors puts the norm, on the device; null unless clips().
  const float* norm() const;

 protected:
  virtual absl::Status PrepareNumber(int64_t /*number*/) { return absl::OkStatus(); }
  virtual absl::Status QueueOwnFactors() { return absl::OkStatus(); }
  virtual absl::Status QueueOwnUpdate(ValueRange range, bf16* rounded) = 0;
  virtual std::vector<OptimizerState> own_state() = 0;

  const Shared& shared() const { return shared_; }
  UpdateGroupsOnDevice groups() const;
  const double* learning_rate() const { return shared_.rate.as<double>(); }
  const float* gradient_factor() const { return &shared_.clipped.as<ClippedNorm>()->factor; }

  DeviceContext& context_;

 private:
  absl::Status QueueNorm();
  absl::Status QueueCopy(ValueRange statistics);

  const Shared shared_;
  // In device memory, for steps that are queued from now on.
  std::optional<double> stored_rate_;
  std::optional<double> stored_rest_;
};

// As Device::MakeOptimizer. Errors: ResourceExhausted.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaOptimizer(DeviceContext& context,
                                                             const OptimizerOptions& options,
                                                             const ParameterLayout& layout,
                                                             absl::Span<float> values,
                                                             absl::Span<const float> gradients);

}  // namespace dp::engine::cuda
