#pragma once

#include "absl/types/span.h"
#include "worker/engine/device/cuda/cuda_cudnn_graph.h"

namespace dp::engine::cuda::on_host {

// cuDNN's backend API on the host, linked instead of cuDNN: descriptors are plain notes of what was
// set, every graph has one engine, and a plan is computed operation after operation as its
// descriptors say. So a test runs what is told to cuDNN, which itself computes on a GPU alone.

// Computes a graph that is finished, in floats whatever the types of its tensors. `stored`: an
// address for each of CudnnGraph::stored(), in the host's memory, of floats.
void Compute(const CudnnGraph& graph, absl::Span<float* const> stored);

}  // namespace dp::engine::cuda::on_host
