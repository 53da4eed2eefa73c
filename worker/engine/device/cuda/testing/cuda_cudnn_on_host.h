#pragma once

#include "absl/types/span.h"
#include "worker/engine/device/cuda/libraries/cuda_cudnn_graph.h"

namespace dp::engine::cuda::on_host {

// cuDNN's backend API on the host, linked instead of cuDNN, which computes only on a GPU. A
// descriptor is a plain note of the attributes that were set. Every graph has one engine. A plan
// computes one operation after another as its descriptors say, and adds in order, so a test runs
// what we describe to cuDNN.

// Computes a finished graph, in floats whatever the types of its tensors. `stored` has an address
// for each of CudnnGraph::stored(): floats in the host's memory.
void Compute(const CudnnGraph& graph, absl::Span<float* const> stored);

}  // namespace dp::engine::cuda::on_host
