#pragma once

#include "worker/engine/device/cuda/cuda_cross_entropy.h"
#include "worker/engine/device/cuda/cuda_types.h"

namespace dp::engine::cuda {

// Writes a StepTail, as floats, from what the loss and the host have left in device memory: the
// float nearest to sums->loss_sum times step->gradient_scale, and step->leaving.
cudaError_t WriteTail(cudaStream_t stream, const LossSums* sums, const StepInput* step,
                      float* tail);

}  // namespace dp::engine::cuda
