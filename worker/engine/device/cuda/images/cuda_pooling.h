#pragma once

#include "worker/engine/device/cuda/kernels/cuda_limits.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Max pooling of square windows, over images with channels last (NHWC). Padding is never the
// largest; it is at most half a window, so every window has an element.

namespace dp::engine::cuda {

struct PoolingShape {
  int64_t samples = 0;
  int64_t channels = 0;
  int in_rows = 0;
  int in_columns = 0;
  int kernel = 0;  // at most kPoolingKernelMax
  int stride = 0;
  int padding = 0;
  // Whether outputs, their places and their gradients are in PyTorch's order, for a flatten that
  // follows. Otherwise they have channels last, as inputs always do.
  bool plain = false;

  DP_HOST_DEVICE int out_rows() const { return (in_rows + 2 * padding - kernel) / stride + 1; }
  DP_HOST_DEVICE int out_columns() const {
    return (in_columns + 2 * padding - kernel) / stride + 1;
  }
  DP_HOST_DEVICE int64_t in_size() const { return samples * in_rows * in_columns * channels; }
  DP_HOST_DEVICE int64_t out_size() const {
    return samples * out_rows() * out_columns() * channels;
  }
};

// Each of the out_size() `places` receives which element of its window the output is. Elements are
// numbered row by row from 0; the first of equal elements wins.
template <typename T>
cudaError_t MaxPoolForward(cudaStream_t stream, const T* in, PoolingShape shape, T* out,
                           uint8_t* places);
// Each element of in_gradient is the sum, in the windows' order, over the windows in which the
// element was largest. `relu_out` is null or forward's `out`. With forward's `out` the kernel also
// does the backward half of a ReLU before the pooling: outputs that are not above 0 pass nothing
// on.
template <typename T>
cudaError_t MaxPoolBackward(cudaStream_t stream, const T* out_gradient, const uint8_t* places,
                            const T* relu_out, PoolingShape shape, T* in_gradient);

}  // namespace dp::engine::cuda
