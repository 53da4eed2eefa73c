#pragma once

#include "base/model/pool_axis.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Mean pooling over images with channels last (NHWC), as model::AvgPool2d and
// model::AdaptiveAvgPool2d define it.

namespace dp::engine::cuda {

struct MeanPoolingShape {
  int64_t samples = 0;
  int64_t channels = 0;
  model::PoolAxis rows;
  model::PoolAxis columns;

  DP_HOST_DEVICE int64_t in_size() const { return samples * rows.in * columns.in * channels; }
  DP_HOST_DEVICE int64_t out_size() const { return samples * rows.out * columns.out * channels; }
};

// `in` is samples x rows.in x columns.in x channels, `out` samples x rows.out x columns.out x
// channels.
template <typename T>
cudaError_t MeanPoolForward(cudaStream_t stream, const T* in, const MeanPoolingShape& shape,
                            T* out);
// Each element of in_gradient is the sum, in the windows' order, of its shares of the windows that
// contain it.
template <typename T>
cudaError_t MeanPoolBackward(cudaStream_t stream, const T* out_gradient,
                             const MeanPoolingShape& shape, T* in_gradient);

}  // namespace dp::engine::cuda
