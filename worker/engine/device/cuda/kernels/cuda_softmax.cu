#include "worker/engine/device/cuda/kernels/cuda_softmax.h"

#include "worker/engine/device/cuda/kernels/cuda_exponential.h"
#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"
#include "worker/engine/device/cuda/kernels/cuda_warp.h"

namespace dp::engine::cuda {
namespace {

// Warps of a block; each does one row, which it reads again from the cache.
constexpr int kRows = kBlockThreads / kWarpThreads;

// A lane's part of a row: every 32nd vector of N columns.
template <int N>
struct Lane {
  int64_t row;
  int64_t columns;

  __device__ explicit Lane(Matrix shape)
      : row(static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y), columns(shape.columns) {}

  // use(place in the array) for each vector.
  template <typename Use>
  __device__ void ForEach(Use use) const {
    for (int64_t column = int64_t{threadIdx.x} * N; column < columns;
         column += int64_t{kWarpThreads} * N) {
      use(row * columns + column);
    }
  }
};

template <int N, typename T>
__global__ void __launch_bounds__(kBlockThreads) ForwardKernel(const T* in, Matrix shape, T* out) {
  const Lane<N> lane(shape);
  if (lane.row >= shape.rows) return;
  float largest = -INFINITY;
  lane.ForEach([&](int64_t at) {
    const auto value = Vector<T, N>::Load(in + at);
#pragma unroll
    for (int i = 0; i < N; ++i) largest = fmaxf(largest, value.values[i]);
  });
  largest = WarpMax(largest);
  float sum = 0;
  lane.ForEach([&](int64_t at) {
    const auto value = Vector<T, N>::Load(in + at);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += Exp<T>(value.values[i] - largest);
  });
  const float share = 1.0f / WarpSum(sum);
  lane.ForEach([&](int64_t at) {
    auto value = Vector<T, N>::Load(in + at);
#pragma unroll
    for (int i = 0; i < N; ++i) value.values[i] = Exp<T>(value.values[i] - largest) * share;
    value.Store(out + at);
  });
}

template <int N, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    BackwardKernel(const T* out, const T* out_gradient, Matrix shape, T* in_gradient) {
  const Lane<N> lane(shape);
  if (lane.row >= shape.rows) return;
  float sum = 0;
  lane.ForEach([&](int64_t at) {
    const auto value = Vector<T, N>::Load(out + at);
    const auto gradient = Vector<T, N>::Load(out_gradient + at);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += value.values[i] * gradient.values[i];
  });
  const float mean = WarpSum(sum);
  lane.ForEach([&](int64_t at) {
    auto value = Vector<T, N>::Load(out + at);
    const auto gradient = Vector<T, N>::Load(out_gradient + at);
#pragma unroll
    for (int i = 0; i < N; ++i) value.values[i] *= gradient.values[i] - mean;
    value.Store(in_gradient + at);
  });
}

Grid RowsGrid(Matrix shape) { return {BlocksFor(shape.rows, kRows), dim3(kWarpThreads, kRows)}; }

}  // namespace

template <typename T>
cudaError_t SoftmaxForward(cudaStream_t stream, const T* in, Matrix shape, T* out) {
  if (shape.size() == 0) return cudaSuccess;
  if (shape.columns % kWidth<T> != 0) {
    return Launch(stream, RowsGrid(shape), ForwardKernel<1, T>, in, shape, out);
  }
  return Launch(stream, RowsGrid(shape), ForwardKernel<kWidth<T>, T>, in, shape, out);
}
template cudaError_t SoftmaxForward(cudaStream_t, const float*, Matrix, float*);
template cudaError_t SoftmaxForward(cudaStream_t, const bf16*, Matrix, bf16*);

template <typename T>
cudaError_t SoftmaxBackward(cudaStream_t stream, const T* out, const T* out_gradient, Matrix shape,
                            T* in_gradient) {
  if (shape.size() == 0) return cudaSuccess;
  if (shape.columns % kWidth<T> != 0) {
    return Launch(stream, RowsGrid(shape), BackwardKernel<1, T>, out, out_gradient, shape,
                  in_gradient);
  }
  return Launch(stream, RowsGrid(shape), BackwardKernel<kWidth<T>, T>, out, out_gradient, shape,
                in_gradient);
}
template cudaError_t SoftmaxBackward(cudaStream_t, const float*, const float*, Matrix, float*);
template cudaError_t SoftmaxBackward(cudaStream_t, const bf16*, const bf16*, Matrix, bf16*);

}  // namespace dp::engine::cuda
