#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Functions of each element of an array. Backward multiplies a function's derivative by a gradient.
// `out` may be an input: each element is read before it is written.

namespace dp::engine::cuda {

// out = a + b.
template <typename T>
cudaError_t Add(cudaStream_t stream, const T* a, const T* b, int64_t size, T* out);

// out = max(in, 0).
template <typename T>
cudaError_t ReluForward(cudaStream_t stream, const T* in, int64_t size, T* out);
// in_gradient = out_gradient where out > 0, else 0.
template <typename T>
cudaError_t ReluBackward(cudaStream_t stream, const T* out, const T* out_gradient, int64_t size,
                         T* in_gradient);

// torch.nn.GELU(approximate="tanh"), as model::Gelu is.
template <typename T>
cudaError_t GeluForward(cudaStream_t stream, const T* in, int64_t size, T* out);
template <typename T>
cudaError_t GeluBackward(cudaStream_t stream, const T* in, const T* out_gradient, int64_t size,
                         T* in_gradient);

// values[row][column] += bias[column]; where `relu`, negative sums then become 0.
template <typename T>
cudaError_t AddBias(cudaStream_t stream, const float* bias, Matrix shape, bool relu, T* values);

}  // namespace dp::engine::cuda
