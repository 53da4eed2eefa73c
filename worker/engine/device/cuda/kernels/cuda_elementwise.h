#pragma once

#include "worker/engine/device/cuda/kernels/cuda_function.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Functions of each element of an array. Backward multiplies a function's derivative by a gradient.
// `out` may be an input: each element is read before it is written.

namespace dp::engine::cuda {

// out = a + b.
template <typename T>
cudaError_t Add(cudaStream_t stream, const T* a, const T* b, int64_t size, T* out);

// out = function(in); the function is not kNone.
template <typename T>
cudaError_t FunctionForward(cudaStream_t stream, Function function, const T* in, int64_t size,
                            T* out);
// `saved` is forward's `out` where SavesOutput(function), else its `in`.
template <typename T>
cudaError_t FunctionBackward(cudaStream_t stream, Function function, const T* saved,
                             const T* out_gradient, int64_t size, T* in_gradient);

// values[row][column] += bias[column]; where `relu`, negative sums then become 0.
template <typename T>
cudaError_t AddBias(cudaStream_t stream, const float* bias, Matrix shape, bool relu, T* values);

}  // namespace dp::engine::cuda
