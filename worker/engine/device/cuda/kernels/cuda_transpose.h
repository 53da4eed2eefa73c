#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

namespace dp::engine::cuda {

// `count` matrices one after another.
struct Matrices {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};

// Transposes each matrix, which has `shape` in `in`, and rounds to `To`. All pairs of float and
// bf16.
// - NCHW to NHWC is {N, C, H W}; back is {N, H W, C}.
// - Weights from out x in x kernel x kernel to channels last are {out, in, kernel kernel}.
template <typename From, typename To>
cudaError_t Transpose(cudaStream_t stream, const From* in, Matrices shape, To* out);

}  // namespace dp::engine::cuda
