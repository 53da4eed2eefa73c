#pragma once

#include "worker/engine/device/cuda/cuda_types.h"

namespace dp::engine::cuda {

// `count` matrices one after another.
struct Matrices {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};

// Transposes each matrix, of `shape` in `in`, rounding to `To`. NCHW to NHWC is {N, C, H W}, back
// is {N, H W, C}; weights from out x in x kernel x kernel to channels last {out, in, kernel
// kernel}. All pairs of float and bf16.
template <typename From, typename To>
cudaError_t Transpose(cudaStream_t stream, const From* in, Matrices shape, To* out);

}  // namespace dp::engine::cuda
