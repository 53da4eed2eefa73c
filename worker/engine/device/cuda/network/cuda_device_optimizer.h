#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/kernels/cuda_optimizer.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

// An optimizer whose state, learning rate and next step number lie on the GPU, so that a step can
// be captured. Not thread-safe.
class CudaOptimizer : public Optimizer {
 public:
  // `learning_rate` is memory for a double; `of_options` is the rate that steps take a factor of.
  CudaOptimizer(DeviceContext& context, DeviceBuffer learning_rate, double of_options)
      : context_(context),
        learning_rate_of_options_(of_options),
        learning_rate_(std::move(learning_rate)) {}

  void Step(const OptimizerStep& step) final;

  // Makes `step` the next queued step. Queues what the device's memory does not hold yet: a
  // learning rate that has changed, and a step number other than the device's own count. Must not
  // be captured.
  absl::Status Prepare(const OptimizerStep& step);
  // Queues the work that all updates of a step share, once before them. May be captured.
  virtual absl::Status QueueFactors() = 0;
  // Queues the update of a range of values. Each value is updated once in a step. `rounded`, where
  // not null, receives the new values in bf16. May be captured.
  virtual absl::Status QueueUpdate(ValueRange range, bf16* rounded) = 0;
  // Queues both, for all values.
  absl::Status Queue(bf16* rounded);

 protected:
  virtual int64_t size() const = 0;
  virtual absl::Status PrepareNumber(int64_t /*number*/) { return absl::OkStatus(); }
  const double* learning_rate() const { return learning_rate_.as<double>(); }

  DeviceContext& context_;

 private:
  const double learning_rate_of_options_;
  const DeviceBuffer learning_rate_;
  std::optional<double> stored_rate_;  // in device memory, for steps that are queued from now on
};

// As Device::MakeOptimizer. Errors: ResourceExhausted.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaOptimizer(DeviceContext& context,
                                                             const OptimizerOptions& options,
                                                             const ParameterLayout& layout,
                                                             absl::Span<float> values,
                                                             absl::Span<const float> gradients);

}  // namespace dp::engine::cuda
