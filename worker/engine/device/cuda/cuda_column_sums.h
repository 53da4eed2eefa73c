#pragma once

#include "worker/engine/device/cuda/cuda_types.h"

// Sums over the rows of a matrix: gradients of biases and of positions. In two stages, each in an
// order that follows from the shape: the rows of each chunk, then the chunks.

namespace dp::engine::cuda {

// Floats that ColumnSums needs for its chunks' sums.
int64_t ColumnSumsWorkspace(Matrix shape);

// sums[column] = the sum of in[row][column] over the rows.
template <typename T>
cudaError_t ColumnSums(cudaStream_t stream, const T* in, Matrix shape, float* workspace,
                       float* sums);

// The same of a gradient behind a ReLU, which is set to 0 where `relu_out` is not above 0, in
// place, in the same pass.
template <typename T>
cudaError_t ReluBackwardColumnSums(cudaStream_t stream, const T* relu_out, Matrix shape,
                                   float* workspace, T* gradient, float* sums);

// The same of a matrix whose every element is `places` values side by side, as images have them in
// PyTorch's order: samples x channels x places. A block sums a channel.
template <typename T>
cudaError_t ReluBackwardChannelSums(cudaStream_t stream, const T* relu_out, Matrix shape,
                                    int64_t places, T* gradient, float* sums);

// Where sums of columns go: those below `split` to `first`, the others to `second`.
struct SplitSums {
  int64_t split = 0;
  float* first = nullptr;
  float* second = nullptr;
};

// The second stage, for kernels that sum chunks of rows themselves: `chunk_sums` has a row for each
// chunk.
cudaError_t SumChunks(cudaStream_t stream, const float* chunk_sums, Matrix shape, SplitSums sums);

}  // namespace dp::engine::cuda
