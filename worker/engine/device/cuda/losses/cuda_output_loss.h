#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"
#include "worker/engine/device/cuda/losses/cuda_loss_output.h"

// The losses of nn/loss.h that take a sample's output as a whole.

namespace dp::engine::cuda {

enum class OutputLossKind { kMse, kL1, kBce, kNorm };

// samples x columns outputs, and as many targets.
struct OutputLossShape {
  int64_t samples = 0;  // batch size
  int64_t columns = 0;

  DP_HOST_DEVICE int64_t size() const { return samples * columns; }
};

// Bytes that OutputLoss needs.
int64_t OutputLossWorkspace(const OutputLossShape& shape);

// The loss of the first step->count samples. kNorm needs no `targets`. Overwrites `sums`. Where
// `gradient` is not null, writes the gradient times step->gradient_scale to it, and zeroes for
// padding; it may be `outputs`. `tail` is null or as in LossOutput. Sums are in double, in an order
// that follows from the shape.
template <typename T>
cudaError_t OutputLoss(cudaStream_t stream, OutputLossKind kind, const T* outputs,
                       const float* targets, const OutputLossShape& shape, const StepInput* step,
                       void* workspace, LossSums* sums, T* gradient, float* tail = nullptr);

}  // namespace dp::engine::cuda
