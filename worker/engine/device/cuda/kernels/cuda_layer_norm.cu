#include "worker/engine/device/cuda/kernels/cuda_layer_norm.h"

#include "worker/engine/device/cuda/kernels/cuda_layer_norm_row.h"

namespace dp::engine::cuda {
namespace {

// Warps of a block; each does one row.
constexpr int kRows = kBlockThreads / kWarpThreads;

template <typename T>
struct ForwardInput {
  const T* in;
  const T* other;  // null, or the array that is added before the norm
  T* sum;          // receives `in` + `other`
};

template <typename T, int N>
__device__ Vector<T, N> SumOf(Vector<T, N> a, const Vector<T, N>& b) {
#pragma unroll
  for (int i = 0; i < N; ++i) a.values[i] += b.values[i];
  return a;
}

// Reads a row, after adding `other` where it is given. The norm takes the rounded sum, because
// backward reads the rounded sum.
template <typename T, int N, int K>
__device__ void ReadSum(const RowWalk<N, K>& walk, const ForwardInput<T>& input, int64_t begin,
                        HeldRow<T, N, K>& row) {
  if (input.other == nullptr) return row.Read(walk, input.in + begin);
  if constexpr (K > 0) {
    HeldRow<T, N, K> other;
    row.Read(walk, input.in + begin);
    other.Read(walk, input.other + begin);
    walk.ForEach([&](int k, int column) {
      row.held[k] = Packed<T, N>::Of(SumOf(row.At(k, column), other.At(k, column)));
      row.held[k].Store(input.sum + begin + column);
    });
  } else {
    walk.ForEach([&](int, int column) {
      const auto in = Vector<T, N>::Load(input.in + begin + column);
      const auto other = Vector<T, N>::Load(input.other + begin + column);
      SumOf(in, other).Store(input.sum + begin + column);
    });
    row.Read(walk, input.sum + begin);
  }
}

// The sum of of(element) over a row.
template <typename T, int N, int K, typename Of>
__device__ float RowSum(const RowWalk<N, K>& walk, const HeldRow<T, N, K>& row, Of of) {
  float sum = 0;
  walk.ForEach([&](int k, int column) {
    const auto value = row.At(k, column);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += of(value.values[i]);
  });
  return WarpSum(sum);
}

template <typename T, int N, int K>
__global__ void __launch_bounds__(kBlockThreads)
    ForwardKernel(ForwardInput<T> input, LayerNormParameters parameters, Matrix shape,
                  RowMoments moments, T* out) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y;
  if (r >= shape.rows) return;
  const RowWalk<N, K> walk = {static_cast<int>(shape.columns)};
  HeldRow<T, N, K> row;
  ReadSum(walk, input, r * shape.columns, row);
  const float inverse = 1.0f / static_cast<float>(shape.columns);
  const bool centered = parameters.bias != nullptr;
  const float mean = centered ? RowSum(walk, row, [](float x) { return x; }) * inverse : 0.0f;
  const float variance =
      RowSum(walk, row, [mean](float x) { return (x - mean) * (x - mean); }) * inverse;
  const float inverse_deviation = rsqrtf(variance + parameters.epsilon);
  if (threadIdx.x == 0) {
    moments.mean[r] = mean;
    moments.inverse_deviation[r] = inverse_deviation;
  }
  walk.ForEach([&](int k, int column) {
    auto value = row.At(k, column);
    const auto weight = Vector<float, N>::Load(parameters.weight + column);
    Vector<float, N> bias = {};
    if (centered) bias = Vector<float, N>::Load(parameters.bias + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      value.values[i] =
          (value.values[i] - mean) * inverse_deviation * weight.values[i] + bias.values[i];
    }
    value.Store(out + r * shape.columns + column);
  });
}

template <typename T>
cudaError_t Forward(cudaStream_t stream, const ForwardInput<T>& input,
                    LayerNormParameters parameters, Matrix shape, RowMoments moments, T* out) {
  if (shape.rows == 0) return cudaSuccess;
  return WithRowWalk(shape.columns, [&]<int N, int K>() {
    const Grid grid = {BlocksFor(shape.rows, kRows), dim3(kWarpThreads, kRows)};
    return Launch(stream, grid, ForwardKernel<T, N, K>, input, parameters, shape, moments, out);
  });
}

}  // namespace

template <typename T>
cudaError_t LayerNormForward(cudaStream_t stream, const T* in, LayerNormParameters parameters,
                             Matrix shape, RowMoments moments, T* out) {
  return Forward(stream, ForwardInput<T>{in, nullptr, nullptr}, parameters, shape, moments, out);
}
template cudaError_t LayerNormForward(cudaStream_t, const float*, LayerNormParameters, Matrix,
                                      RowMoments, float*);
template cudaError_t LayerNormForward(cudaStream_t, const bf16*, LayerNormParameters, Matrix,
                                      RowMoments, bf16*);

template <typename T>
cudaError_t AddLayerNormForward(cudaStream_t stream, const T* a, const T* b,
                                LayerNormParameters parameters, Matrix shape, RowMoments moments,
                                T* sum, T* out) {
  return Forward(stream, ForwardInput<T>{a, b, sum}, parameters, shape, moments, out);
}
template cudaError_t AddLayerNormForward(cudaStream_t, const float*, const float*,
                                         LayerNormParameters, Matrix, RowMoments, float*, float*);
template cudaError_t AddLayerNormForward(cudaStream_t, const bf16*, const bf16*,
                                         LayerNormParameters, Matrix, RowMoments, bf16*, bf16*);

}  // namespace dp::engine::cuda
