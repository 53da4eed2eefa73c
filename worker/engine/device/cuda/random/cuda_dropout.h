#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

namespace dp::engine::cuda {

// Masks count element i of a sample in PyTorch's order of axes. Memory holds channels last: the
// element of channel c at place p lies at p channels + c and has number c places + p. Where both
// orders agree, channels is 1.
struct DropoutShape {
  int64_t samples = 0;  // batch size
  int64_t channels = 1;
  int64_t places = 0;  // elements of a channel

  DP_HOST_DEVICE int64_t sample_size() const { return channels * places; }
};

struct DropoutOptions {
  double p = 0;
  uint64_t seed = 0;  // the layer's
};

// out = in mask / (1 - p). The mask is that of the CPU's dropout, bit for bit: a function of the
// layer's seed, step->draw, the sample's number and the element's number. `samples` are
// Batch::samples. Rows of padding become zeroes. Backward applies the same function to the
// gradient: the mask is drawn again, not kept. `out` may be `in`.
template <typename T>
cudaError_t Dropout(cudaStream_t stream, const T* in, const int64_t* samples, DropoutShape shape,
                    DropoutOptions options, const StepInput* step, T* out);

}  // namespace dp::engine::cuda
