#pragma once

#include "absl/status/status.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"
#include "worker/engine/device/cuda/network/cuda_network_memory.h"

namespace dp::engine::cuda {

// Bytes of scratch that a loss needs.
int64_t LossWorkspace(const op::TakeLoss& o);

// Queues the loss of `program`, whose sums go to memory.sums(). `tail` is null or as in LossOutput.
absl::Status QueueLoss(cudaStream_t stream, const LayerProgram& program,
                       const NetworkMemory& memory, void* scratch, bool with_gradient, float* tail);

}  // namespace dp::engine::cuda
