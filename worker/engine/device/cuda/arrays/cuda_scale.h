#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// For gradients of any float type: float, bf16, half and double. Arrays need no alignment beyond
// that of an element.

namespace dp::engine::cuda {

// values *= factor. Only double keeps the factor's digits beyond a float.
template <typename T>
cudaError_t Scale(cudaStream_t stream, double factor, int64_t size, T* values);

// sums[i] is the sum of the squares of the values from i * per_sum on, in double.
template <typename T>
cudaError_t SumSquares(cudaStream_t stream, const T* values, int64_t size, int64_t per_sum,
                       double* sums);

// From the sums of squares of all chunks of gradients: their norm, and the factor that clips it to
// `clip_norm`, as in nn/gradient_norm.h and nn/clip_factor.h. One block adds the `count` sums.
struct ClippedNorm {
  float factor = 1;
  float norm = 0;
};
cudaError_t ClipNorm(cudaStream_t stream, const double* sums, int64_t count, double clip_norm,
                     ClippedNorm* result);

}  // namespace dp::engine::cuda
