#pragma once

#include <algorithm>

#include "worker/engine/device/cuda/kernels/cuda_for_each.h"

// How poolings divide their work. Places are found by division, and 64-bit division is slow, so a
// launch counts elements by 32 bits. Only .cu files include this header.

namespace dp::engine::cuda {

// A thread takes 4 channels where their number allows it: small networks have too few pixels for
// more.
template <typename Apply>
cudaError_t ForEachChannels(cudaStream_t stream, int64_t size, int64_t channels,
                            const Apply& apply) {
  if (channels % 4 == 0) return ForEach<4>(stream, size, apply);
  return ForEach<1>(stream, size, apply);
}

// Calls launch(first, part) until all samples are done. `part` has as many samples from `first` on
// as have inputs and outputs that 32 bits can count.
template <typename Shape, typename Launch>
cudaError_t ForSamples(const Shape& shape, const Launch& launch) {
  constexpr int64_t kElementsMax = int64_t{1} << 31;
  if (shape.samples == 0) return cudaSuccess;
  const int64_t sample_size = std::max(shape.in_size(), shape.out_size()) / shape.samples;
  const int64_t most = std::max<int64_t>((kElementsMax - 1) / std::max<int64_t>(sample_size, 1), 1);
  for (int64_t first = 0; first < shape.samples; first += most) {
    Shape part = shape;
    part.samples = std::min(most, shape.samples - first);
    const cudaError_t result = launch(first, part);
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace dp::engine::cuda
