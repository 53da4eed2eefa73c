#include "worker/engine/device/cuda/arrays/cuda_scale.h"

#include "worker/engine/device/cuda/kernels/cuda_block_sum.h"
#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"
#include "worker/engine/nn/clip_factor.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
struct ScaleOf {
  float factor;
  T* values;

  template <int N>
  __device__ void At(int64_t first) const {
    auto scaled = Vector<T, N>::Load(values + first);
#pragma unroll
    for (int i = 0; i < N; ++i) scaled.values[i] *= factor;
    scaled.Store(values + first);
  }
};

template <>
struct ScaleOf<double> {
  double factor;
  double* values;

  template <int N>
  __device__ void At(int64_t first) const {
#pragma unroll
    for (int i = 0; i < N; ++i) values[first + i] *= factor;
  }
};

template <typename T>
__device__ double Widest(T value) {
  return static_cast<double>(ToFloat(value));
}
template <>
__device__ double Widest<double>(double value) {
  return value;
}

// Block b sums the values of sum b.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    SumSquaresKernel(const T* values, int64_t size, int64_t per_sum, double* sums) {
  const int64_t begin = blockIdx.x * per_sum;
  const int64_t end = min(begin + per_sum, size);
  double mine = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kBlockThreads) {
    const double value = Widest(values[i]);
    mine += value * value;
  }
  const double sum = BlockSum(mine);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kBlockThreads)
    ClipNormKernel(const double* sums, int64_t count, double clip_norm, ClippedNorm* result) {
  double mine = 0;
  for (int64_t i = threadIdx.x; i < count; i += kBlockThreads) mine += sums[i];
  const double sum = BlockSum(mine);
  if (threadIdx.x != 0) return;
  const auto norm = static_cast<float>(sqrt(sum));
  *result = {ClipFactor(clip_norm, norm), norm};
}

// Whether a thread may load 16 bytes at once.
bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

}  // namespace

template <typename T>
cudaError_t Scale(cudaStream_t stream, double factor, int64_t size, T* values) {
  using Factor = decltype(ScaleOf<T>::factor);
  const ScaleOf<T> scale{static_cast<Factor>(factor), values};
  if (IsAligned(values)) return ForEach<kWidth<T>>(stream, size, scale);
  return ForEach<1>(stream, size, scale);
}

template <typename T>
cudaError_t SumSquares(cudaStream_t stream, const T* values, int64_t size, int64_t per_sum,
                       double* sums) {
  if (size == 0) return cudaSuccess;
  return Launch(stream, {BlocksFor(size, per_sum), kBlockThreads}, SumSquaresKernel<T>, values,
                size, per_sum, sums);
}

cudaError_t ClipNorm(cudaStream_t stream, const double* sums, int64_t count, double clip_norm,
                     ClippedNorm* result) {
  return Launch(stream, {1, kBlockThreads}, ClipNormKernel, sums, count, clip_norm, result);
}

#define DP_INSTANTIATE(T)                                        \
  template cudaError_t Scale(cudaStream_t, double, int64_t, T*); \
  template cudaError_t SumSquares(cudaStream_t, const T*, int64_t, int64_t, double*);
DP_INSTANTIATE(float)
DP_INSTANTIATE(bf16)
DP_INSTANTIATE(half)
DP_INSTANTIATE(double)
#undef DP_INSTANTIATE

}  // namespace dp::engine::cuda
