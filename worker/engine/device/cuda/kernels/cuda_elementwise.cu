#include "worker/engine/device/cuda/kernels/cuda_elementwise.h"

#include "worker/engine/device/cuda/kernels/cuda_exponential.h"
#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// A NaN stays NaN, so that a failed training shows.
__device__ float Relu(float x) { return x < 0.0f ? 0.0f : x; }

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
struct ReluForwardOf {
  const T* in;
  T* out;

  template <int N>
  __device__ void At(int64_t first) const {
    auto value = Vector<T, N>::Load(in + first);
#pragma unroll
    for (int i = 0; i < N; ++i) value.values[i] = Relu(value.values[i]);
    value.Store(out + first);
  }
};

template <typename T>
struct ReluBackwardOf {
  const T* out;
  const T* out_gradient;
  T* in_gradient;

  template <int N>
  __device__ void At(int64_t first) const {
    const auto value = Vector<T, N>::Load(out + first);
    auto gradient = Vector<T, N>::Load(out_gradient + first);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (!(value.values[i] > 0.0f)) gradient.values[i] = 0.0f;
    }
    gradient.Store(in_gradient + first);
  }
};

// gelu(x) = x (1 + tanh(u / 2)) / 2 = x sigmoid(u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3).
constexpr float kGeluRoot = 2 * 0.797884560802865f;
constexpr float kGeluCubic = 0.044715f;

template <typename T>
__device__ float Gelu(float x) {
  return x * Sigmoid<T>(kGeluRoot * (x + kGeluCubic * x * x * x));
}

// gelu'(x) = s + x s (1 - s) u', s = sigmoid(u).
template <typename T>
__device__ float GeluSlope(float x) {
  const float s = Sigmoid<T>(kGeluRoot * (x + kGeluCubic * x * x * x));
  const float slope_of_u = kGeluRoot * (1.0f + 3.0f * kGeluCubic * x * x);
  return s + x * s * (1.0f - s) * slope_of_u;
}

template <typename T>
struct GeluForwardOf {
  const T* in;
  T* out;

  template <int N>
  __device__ void At(int64_t first) const {
    auto value = Vector<T, N>::Load(in + first);
#pragma unroll
    for (int i = 0; i < N; ++i) value.values[i] = Gelu<T>(value.values[i]);
    value.Store(out + first);
  }
};

template <typename T>
struct GeluBackwardOf {
  const T* in;
  const T* out_gradient;
  T* in_gradient;

  template <int N>
  __device__ void At(int64_t first) const {
    const auto value = Vector<T, N>::Load(in + first);
    auto gradient = Vector<T, N>::Load(out_gradient + first);
#pragma unroll
    for (int i = 0; i < N; ++i) gradient.values[i] *= GeluSlope<T>(value.values[i]);
    gradient.Store(in_gradient + first);
  }
};

template <typename T>
struct AddBiasOf {
  const float* bias;
  int64_t columns;
  bool relu;
  T* values;

  template <int N>
  __device__ void At(int64_t first) const {
    auto value = Vector<T, N>::Load(values + first);
    int64_t column = first % columns;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float sum = value.values[i] + bias[column];
      value.values[i] = relu ? Relu(sum) : sum;
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
cudaError_t ReluForward(cudaStream_t stream, const T* in, int64_t size, T* out) {
  return ForEach<kWidth<T>>(stream, size, ReluForwardOf<T>{in, out});
}

template <typename T>
cudaError_t ReluBackward(cudaStream_t stream, const T* out, const T* out_gradient, int64_t size,
                         T* in_gradient) {
  return ForEach<kWidth<T>>(stream, size, ReluBackwardOf<T>{out, out_gradient, in_gradient});
}

template <typename T>
cudaError_t GeluForward(cudaStream_t stream, const T* in, int64_t size, T* out) {
  return ForEach<kWidth<T>>(stream, size, GeluForwardOf<T>{in, out});
}

template <typename T>
cudaError_t GeluBackward(cudaStream_t stream, const T* in, const T* out_gradient, int64_t size,
                         T* in_gradient) {
  return ForEach<kWidth<T>>(stream, size, GeluBackwardOf<T>{in, out_gradient, in_gradient});
}

template <typename T>
cudaError_t AddBias(cudaStream_t stream, const float* bias, Matrix shape, bool relu, T* values) {
  return ForEach<kWidth<T>>(stream, shape.size(), AddBiasOf<T>{bias, shape.columns, relu, values});
}

#define DP_INSTANTIATE(T)                                                           \
  template cudaError_t Add(cudaStream_t, const T*, const T*, int64_t, T*);          \
  template cudaError_t ReluForward(cudaStream_t, const T*, int64_t, T*);            \
  template cudaError_t ReluBackward(cudaStream_t, const T*, const T*, int64_t, T*); \
  template cudaError_t GeluForward(cudaStream_t, const T*, int64_t, T*);            \
  template cudaError_t GeluBackward(cudaStream_t, const T*, const T*, int64_t, T*); \
  template cudaError_t AddBias(cudaStream_t, const float*, Matrix, bool, T*);
DP_INSTANTIATE(float)
DP_INSTANTIATE(bf16)
#undef DP_INSTANTIATE

}  // namespace dp::engine::cuda
