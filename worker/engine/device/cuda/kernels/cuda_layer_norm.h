#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Layer norm over the columns of each row, as torch.nn.LayerNorm. Without a bias it is the norm by
// the root of the mean square, as torch.nn.RMSNorm: the mean is taken as 0. It comes alone or fused
// with the add before it. Weight and bias are the float masters, whatever T is.

namespace dp::engine::cuda {

// The moments of each row, for backward. `inverse_deviation` is 1 / sqrt(variance + epsilon).
struct RowMoments {
  float* mean = nullptr;
  float* inverse_deviation = nullptr;
};

struct LayerNormParameters {
  const float* weight = nullptr;
  const float* bias = nullptr;  // null: RMS norm
  float epsilon = 0;
};

// out = norm(in).
template <typename T>
cudaError_t LayerNormForward(cudaStream_t stream, const T* in, LayerNormParameters parameters,
                             Matrix shape, RowMoments moments, T* out);

// sum = a + b, rounded to T; out = norm(sum). `sum` may be `a` or `b`.
template <typename T>
cudaError_t AddLayerNormForward(cudaStream_t stream, const T* a, const T* b,
                                LayerNormParameters parameters, Matrix shape, RowMoments moments,
                                T* sum, T* out);

// Floats that LayerNormBackward needs, with a bias or without.
int64_t LayerNormBackwardWorkspace(Matrix shape);

template <typename T>
struct LayerNormGradients {
  T* in = nullptr;
  float* weight = nullptr;
  float* bias = nullptr;  // null: RMS norm
};

// `in` and `moments` are forward's; `in` is the fused form's `sum`. gradients.in = the gradient
// through the norm, plus `shortcut` where that is not null: the gradient that reaches `in` past the
// norm. gradients.in may be `shortcut` or `out_gradient`. Overwrites the gradients of the
// parameters.
template <typename T>
cudaError_t LayerNormBackward(cudaStream_t stream, const T* in, const T* out_gradient,
                              const T* shortcut, const float* weight, RowMoments moments,
                              Matrix shape, float* workspace, LayerNormGradients<T> gradients);

}  // namespace dp::engine::cuda
