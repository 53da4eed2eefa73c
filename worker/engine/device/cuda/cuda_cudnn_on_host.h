#pragma once

#include "absl/types/span.h"
#include "worker/engine/device/cuda/cuda_cudnn_graph.h"

namespace dp::engine::cuda::on_host {

// Computes a graph that is finished, operation after operation as its descriptors say, in floats
// whatever the types of its tensors. `stored`: an address for each of CudnnGraph::stored(), in the
// host's memory, of floats. Linked instead of cuDNN, whose descriptors are plain notes then: so a
// test sees what a graph says, where cuDNN itself would compute it on a GPU alone.
void Compute(const CudnnGraph& graph, absl::Span<float* const> stored);

}  // namespace dp::engine::cuda::on_host
