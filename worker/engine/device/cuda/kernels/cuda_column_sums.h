#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Sums over the rows of a matrix: gradients of biases and of positions. Two stages sum first the
// rows of each chunk, then the chunks. The order of each stage follows from the shape.

namespace dp::engine::cuda {

// Floats that ColumnSums needs for its chunks' sums.
int64_t ColumnSumsWorkspace(Matrix shape);

// sums[column] = the sum of in[row][column] over the rows.
template <typename T>
cudaError_t ColumnSums(cudaStream_t stream, const T* in, Matrix shape, float* workspace,
                       float* sums);

// The same for a gradient behind a ReLU. The same pass sets `gradient`, in place, to 0 where
// `relu_out` is not above 0.
template <typename T>
cudaError_t ReluBackwardColumnSums(cudaStream_t stream, const T* relu_out, Matrix shape,
                                   float* workspace, T* gradient, float* sums);

// The same for a matrix in which each element is `places` values side by side. Images in PyTorch's
// order have this form: samples x channels x places. A block sums a channel.
template <typename T>
cudaError_t ReluBackwardChannelSums(cudaStream_t stream, const T* relu_out, Matrix shape,
                                    int64_t places, T* gradient, float* sums);

// Where sums of columns go: columns below `split` to `first`, the others to `second`.
struct SplitSums {
  int64_t split = 0;
  float* first = nullptr;
  float* second = nullptr;
};

// The second stage, for kernels that sum chunks of rows themselves. `chunk_sums` has one row for
// each chunk.
cudaError_t SumChunks(cudaStream_t stream, const float* chunk_sums, Matrix shape, SplitSums sums);

}  // namespace dp::engine::cuda
