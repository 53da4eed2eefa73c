#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/cuda/network/cuda_network_memory.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"
#include "worker/engine/device/cuda/runtime/cuda_pinned_ring.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

// A LayerProgram compiled for one GPU. All memory is allocated and every plan chosen when the
// network is made; a step only queues work. Batches go through page-locked slots, so everything
// that a Batch borrows is free when Forward returns. Forward waits for the loss, Backward for
// nothing. The context records errors of the network's work. Not thread-safe.
class CudaNetwork : public Network {
 public:
  // Errors: as Device::Compile.
  static absl::StatusOr<std::unique_ptr<CudaNetwork>> Make(
      DeviceContext& context, absl::Span<const model::CheckedLayer> layers,
      const NetworkOptions& options, absl::Span<const float> values, absl::Span<float> gradients);

  BatchResult Forward(const Batch& batch, Mode mode) override;
  void Backward(float scale, const GradientReady& ready) override;
  void ReadLogits(absl::Span<float> logits) const override;

  // For step programs, which copy batches to memory().batch() themselves.
  const LayerProgram& program() const { return program_; }
  const NetworkMemory& memory() const { return *memory_; }
  // Queues the rounding of values to the precision of layers; a no-op unless that is bf16.
  absl::Status RoundValues();
  // Queues the operations of a training step from `begin` to before `end`, over the batch that lies
  // in memory. Leaves the loss in memory().sums() and a StepTail in `tail`. May be captured.
  absl::Status QueueOperations(size_t begin, size_t end, float* tail);

 private:
  CudaNetwork(DeviceContext& context, LayerProgram program);
  absl::Status Prepare(absl::Span<const float> values, absl::Span<float> gradients);

  absl::Status Stage(const Batch& batch);
  absl::Status StageScale(float scale);
  absl::Status Run(size_t operation, Mode mode) {
    return operations_[operation]->Run(context_.stream(), mode);
  }
  absl::Status RunForward(Mode mode);
  absl::Status RunLoss(bool with_gradient, float* tail = nullptr);
  absl::Status CopyLogits(absl::Span<float> logits) const;

  DeviceContext& context_;
  const LayerProgram program_;
  std::unique_ptr<NetworkMemory> memory_;
  std::vector<std::unique_ptr<CudaOperation>> operations_;  // in the program's order
  void* loss_scratch_ = nullptr;
  PinnedRing staging_;
  StepInput step_;  // of the last Forward
};

}  // namespace dp::engine::cuda
