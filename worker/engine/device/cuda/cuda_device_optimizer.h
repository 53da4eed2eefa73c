#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/cuda_device_context.h"
#include "worker/engine/device/cuda/cuda_optimizer.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

// An optimizer that keeps its state, its learning rate and the number of the next step on the GPU,
// so that a step can be captured. Not thread-safe.
class CudaOptimizer : public Optimizer {
 public:
  explicit CudaOptimizer(DeviceContext& context) : context_(context) {}

  void Step(int64_t number) final;

  // Makes the step that is queued next the one of this number. Queues a copy where the device,
  // which counts itself, has come to another; not to be captured.
  virtual absl::Status Prepare(int64_t number) = 0;
  // Queues what the updates of a step have in common, once before them. May be captured.
  virtual absl::Status QueueFactors() = 0;
  // Queues the update of a range of values; each value has one in a step. `rounded`, where not
  // null, takes all new values in bf16. May be captured.
  virtual absl::Status QueueUpdate(ValueRange range, bf16* rounded) = 0;
  // Both, for all values.
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
