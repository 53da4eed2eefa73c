#include "worker/engine/device/cuda/kernels/cuda_launch.h"
#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_transpose.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // rows of threads: each thread moves 4 elements of a tile

// Blocks are launched for at most this many matrices; they loop over the others.
constexpr int64_t kMatricesMax = 1024;

// A block moves tiles of 32 x 32 through shared memory, so that it reads and writes along rows. The
// extra column puts the elements of a tile's column into different banks. The grid's first axis
// counts tiles, its second matrices.
template <typename From, typename To>
__global__ void __launch_bounds__(kTile* kTileRows)
    TransposeKernel(const From* in, Matrices shape, int64_t tiles_across, To* out) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t row = blockIdx.x / tiles_across * kTile;
  const int64_t column = blockIdx.x % tiles_across * kTile;
  for (int64_t matrix = blockIdx.y; matrix < shape.count; matrix += gridDim.y) {
    const int64_t begin = matrix * shape.rows * shape.columns;
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
      if (row + i < shape.rows && column + threadIdx.x < shape.columns) {
        tile[i][threadIdx.x] =
            ToFloat(in[begin + (row + i) * shape.columns + column + threadIdx.x]);
      }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
      if (column + i < shape.columns && row + threadIdx.x < shape.rows) {
        out[begin + (column + i) * shape.rows + row + threadIdx.x] =
            FromFloat<To>(tile[threadIdx.x][i]);
      }
    }
    __syncthreads();
  }
}

}  // namespace

template <typename From, typename To>
cudaError_t Transpose(cudaStream_t stream, const From* in, Matrices shape, To* out) {
  const int64_t tiles_across = DivideUp(shape.columns, kTile);
  const int64_t tiles = tiles_across * DivideUp(shape.rows, kTile);
  if (shape.count == 0 || tiles == 0) return cudaSuccess;
  const auto deep = static_cast<unsigned>(shape.count < kMatricesMax ? shape.count : kMatricesMax);
  const dim3 grid(static_cast<unsigned>(tiles), deep);
  return Launch(stream, {grid, dim3(kTile, kTileRows)}, TransposeKernel<From, To>, in, shape,
                tiles_across, out);
}

template cudaError_t Transpose(cudaStream_t, const float*, Matrices, float*);
template cudaError_t Transpose(cudaStream_t, const float*, Matrices, bf16*);
template cudaError_t Transpose(cudaStream_t, const bf16*, Matrices, float*);
template cudaError_t Transpose(cudaStream_t, const bf16*, Matrices, bf16*);

}  // namespace dp::engine::cuda
