#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Softmax over the columns of each row, as model::Softmax defines it.

namespace dp::engine::cuda {

// out = exp(in) / the row's sum of exp(in).
template <typename T>
cudaError_t SoftmaxForward(cudaStream_t stream, const T* in, Matrix shape, T* out);

// in_gradient = out (out_gradient - the row's sum of out out_gradient). `out` is forward's.
template <typename T>
cudaError_t SoftmaxBackward(cudaStream_t stream, const T* out, const T* out_gradient, Matrix shape,
                            T* in_gradient);

}  // namespace dp::engine::cuda
