#include "worker/engine/device/cuda/losses/cuda_label_smoothing.h"

#include "worker/engine/device/cuda/kernels/cuda_block_sum.h"
#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"
#include "worker/engine/device/cuda/kernels/cuda_warp.h"

namespace dp::engine::cuda {
namespace {

// Warps of a block; each does one row.
constexpr int kRows = kBlockThreads / kWarpThreads;

template <int N, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    MeasureKernel(const T* logits, const int32_t* labels, LogitsShape shape, float smoothing,
                  const StepInput* step, float* row_terms) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y;
  if (r >= shape.rows()) return;
  const bool known = r < step->count * shape.rows_per_sample;
  const T* row = logits + r * shape.stride;
  float sum = 0;
  for (int64_t column = int64_t{threadIdx.x} * N; known && column < shape.classes;
       column += int64_t{kWarpThreads} * N) {
    const auto value = Vector<T, N>::Load(row + column);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += column + i < shape.classes ? value.values[i] : 0.0f;
  }
  const float mean = WarpSum(sum) / static_cast<float>(shape.classes);
  if (threadIdx.x != 0) return;
  row_terms[r] = known ? smoothing * (ToFloat(row[labels[r]]) - mean) : 0.0f;
}

__global__ void __launch_bounds__(kBlockThreads)
    SumKernel(const float* row_terms, int64_t rows, LossOutput output) {
  double mine = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kBlockThreads) mine += row_terms[i];
  const double sum = BlockSum(mine);
  if (threadIdx.x == 0) output.Write(output.sums->loss_sum + sum, output.sums->correct);
}

template <typename T>
struct SmoothOf {
  const int32_t* labels;
  LogitsShape shape;
  float smoothing;
  const StepInput* step;
  T* gradient;

  template <int N>
  __device__ void At(int64_t first) const {
    const int64_t row = first / shape.stride;
    if (row >= step->count * shape.rows_per_sample) return;
    const auto column = static_cast<int>(first % shape.stride);
    const float all = smoothing * step->gradient_scale;
    const float everywhere = all / static_cast<float>(shape.classes);
    auto value = Vector<T, N>::Load(gradient + first);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (column + i >= shape.classes) break;
      value.values[i] += (column + i == labels[row] ? all : 0.0f) - everywhere;
    }
    value.Store(gradient + first);
  }
};

// Calls launch.template operator()<N>() with the vectors that the rows allow.
template <typename T, typename Launch>
cudaError_t WithWidth(LogitsShape shape, const Launch& launch) {
  return shape.stride % kWidth<T> == 0 ? launch.template operator()<kWidth<T>>()
                                       : launch.template operator()<1>();
}

}  // namespace

template <typename T>
cudaError_t MeasureSmoothing(cudaStream_t stream, const T* logits, const int32_t* labels,
                             LogitsShape shape, float smoothing, const StepInput* step,
                             float* row_terms) {
  if (shape.rows() == 0) return cudaSuccess;
  const Grid grid = {BlocksFor(shape.rows(), kRows), dim3(kWarpThreads, kRows)};
  return WithWidth<T>(shape, [&]<int N>() {
    return Launch(stream, grid, MeasureKernel<N, T>, logits, labels, shape, smoothing, step,
                  row_terms);
  });
}
template cudaError_t MeasureSmoothing(cudaStream_t, const float*, const int32_t*, LogitsShape,
                                      float, const StepInput*, float*);
template cudaError_t MeasureSmoothing(cudaStream_t, const bf16*, const int32_t*, LogitsShape, float,
                                      const StepInput*, float*);

template <typename T>
cudaError_t AddSmoothing(cudaStream_t stream, const float* row_terms, const int32_t* labels,
                         LogitsShape shape, float smoothing, LossOutput output, T* gradient) {
  const cudaError_t result =
      Launch(stream, {1, kBlockThreads}, SumKernel, row_terms, shape.rows(), output);
  if (result != cudaSuccess || gradient == nullptr) return result;
  return WithWidth<T>(shape, [&]<int N>() {
    return ForEach<N>(stream, shape.rows() * shape.stride,
                      SmoothOf<T>{labels, shape, smoothing, output.step, gradient});
  });
}
template cudaError_t AddSmoothing(cudaStream_t, const float*, const int32_t*, LogitsShape, float,
                                  LossOutput, float*);
template cudaError_t AddSmoothing(cudaStream_t, const float*, const int32_t*, LogitsShape, float,
                                  LossOutput, bf16*);

}  // namespace dp::engine::cuda
