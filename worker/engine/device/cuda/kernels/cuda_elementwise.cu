#include "worker/engine/device/cuda/kernels/cuda_elementwise.h"

#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_function_values.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
struct AddOf {
  const T* a;
  const T* b;
  T* out;

  template <int N>
  __device__ void At(int64_t first) const {
    auto sum = Vector<T, N>::Load(a + first);
    const auto other = Vector<T, N>::Load(b + first);
#pragma unroll
    for (int i = 0; i < N; ++i) sum.values[i] += other.values[i];
    sum.Store(out + first);
  }
};

template <typename T>
struct AddBiasOf {
  const float* bias;
  int64_t columns;
  bool relu;
  T* values;

  using Relu = FunctionValues<Function::kRelu>;

  template <int N>
  __device__ void At(int64_t first) const {
    auto value = Vector<T, N>::Load(values + first);
    int64_t column = first % columns;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float sum = value.values[i] + bias[column];
      value.values[i] = relu ? Relu::Value<T>(sum) : sum;
      if (++column == columns) column = 0;
    }
    value.Store(values + first);
  }
};

}  // namespace

template <typename T>
cudaError_t Add(cudaStream_t stream, const T* a, const T* b, int64_t size, T* out) {
  return ForEach<kWidth<T>>(stream, size, AddOf<T>{a, b, out});
}

template <typename T>
cudaError_t AddBias(cudaStream_t stream, const float* bias, Matrix shape, bool relu, T* values) {
  return ForEach<kWidth<T>>(stream, shape.size(), AddBiasOf<T>{bias, shape.columns, relu, values});
}

#define DP_INSTANTIATE(T)                                                  \
  template cudaError_t Add(cudaStream_t, const T*, const T*, int64_t, T*); \
  template cudaError_t AddBias(cudaStream_t, const float*, Matrix, bool, T*);
DP_INSTANTIATE(float)
DP_INSTANTIATE(bf16)
#undef DP_INSTANTIATE

}  // namespace dp::engine::cuda
