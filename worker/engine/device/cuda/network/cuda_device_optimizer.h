#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/kernels/cuda_optimizer.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

// An optimizer whose state, learning rate and next step number lie on the GPU, so that a step can
// be captured. Not thread-safe.
class CudaOptimizer : public Optimizer {
 public:
  explicit CudaOptimizer(DeviceContext& context) : context_(context) {}

  void Step(int64_t number) final;

  // Makes `number` the number of the next queued step. The device counts steps itself; if its count
  // differs, this queues a copy. Must not be captured.
  virtual absl::Status Prepare(int64_t number) = 0;
  // Queues the work that all updates of a step share, once before them. May be captured.
  virtual absl::Status QueueFactors() = 0;
  // Queues the update of a range of values. Each value is updated once in a step. `rounded`, where
  // not null, receives the new values in bf16. May be captured.
  virtual absl::Status QueueUpdate(ValueRange range, bf16* rounded) = 0;
  // Queues both, for all values.
  absl::Status Queue(bf16* rounded);

 protected:
  virtual int64_t size() const = 0;

  DeviceContext& context_;
};

// Errors: ResourceExhausted.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaSgd(DeviceContext& context,
                                                       const SgdOptions& options,
                                                       absl::Span<float> values,
                                                       absl::Span<const float> gradients);
absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaAdamW(DeviceContext& context,
                                                         const AdamWOptions& options,
                                                         const ParameterLayout& layout,
                                                         absl::Span<float> values,
                                                         absl::Span<const float> gradients);

}  // namespace dp::engine::cuda
