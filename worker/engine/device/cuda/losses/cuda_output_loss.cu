#include "worker/engine/device/cuda/losses/cuda_output_loss.h"

#include "worker/engine/device/cuda/kernels/cuda_block_sum.h"
#include "worker/engine/device/cuda/kernels/cuda_exponential.h"
#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// A block sums this many neighbouring vectors of each of its threads.
constexpr int kVectorsOfThread = 8;

// The term of an output o and its target t, and its derivative in o.
template <OutputLossKind kKind>
struct Term;

template <>
struct Term<OutputLossKind::kMse> {
  __device__ static float Value(float o, float t) { return (o - t) * (o - t); }
  __device__ static float Slope(float o, float t) { return 2 * (o - t); }
};
template <>
struct Term<OutputLossKind::kL1> {
  __device__ static float Value(float o, float t) { return fabsf(o - t); }
  __device__ static float Slope(float o, float t) {
    if (o == t) return 0.0f;
    return o > t ? 1.0f : o < t ? -1.0f : o - t;  // the last is NaN
  }
};
// log(1 + exp(o)) - o t without overflow. A target that is no probability gives NaN.
template <>
struct Term<OutputLossKind::kBce> {
  __device__ static float Value(float o, float t) {
    if (!(t >= 0.0f && t <= 1.0f)) return NAN;
    return fmaxf(o, 0.0f) - o * t + log1pf(expf(-fabsf(o)));
  }
  __device__ static float Slope(float o, float t) { return Sigmoid<float>(o) - t; }
};
// Squares, whose root is taken at the end.
template <>
struct Term<OutputLossKind::kNorm> {
  __device__ static float Value(float o, float) { return o * o; }
  __device__ static float Slope(float, float) { return 0.0f; }
};

template <typename T>
struct Input {
  const T* outputs;
  const float* targets;
  OutputLossShape shape;
  const StepInput* step;
  T* gradient;  // null, or receives the gradient of what is no norm
};

// The sum of N terms from `first` on; writes their gradient.
template <OutputLossKind kKind, int N, typename T>
__device__ double TermsAt(const Input<T>& input, int64_t first) {
  auto output = Vector<T, N>::Load(input.outputs + first);
  Vector<float, N> target = {};
  if constexpr (kKind != OutputLossKind::kNorm) {
    target = Vector<float, N>::Load(input.targets + first);
  }
  const int64_t known = input.step->count * input.shape.columns;
  const float scale = input.step->gradient_scale / static_cast<float>(input.shape.columns);
  double sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const bool counts = first + i < known;
    const float o = output.values[i], t = target.values[i];
    sum += counts ? static_cast<double>(Term<kKind>::Value(o, t)) : 0.0;
    output.values[i] = counts ? scale * Term<kKind>::Slope(o, t) : 0.0f;
  }
  if (kKind != OutputLossKind::kNorm && input.gradient != nullptr) {
    output.Store(input.gradient + first);
  }
  return sum;
}

// partial[b] receives the sum of block b's terms.
template <OutputLossKind kKind, int N, typename T>
__global__ void __launch_bounds__(kBlockThreads) TermsKernel(Input<T> input, double* partial) {
  const int64_t size = input.shape.size();
  const int64_t begin = int64_t{blockIdx.x} * kVectorsOfThread * kBlockThreads * N;
  double sum = 0;
#pragma unroll 1
  for (int k = 0; k < kVectorsOfThread; ++k) {
    const int64_t first = begin + (int64_t{k} * kBlockThreads + threadIdx.x) * N;
    if (first + N <= size) {
      sum += TermsAt<kKind, N>(input, first);
    } else {
#pragma unroll 1
      for (int64_t i = first; i < size; ++i) sum += TermsAt<kKind, 1>(input, i);
    }
  }
  const double all = BlockSum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = all;
}

// Adds the blocks' sums. Then *factor is what a norm's outputs are multiplied by to give its
// gradient.
__global__ void __launch_bounds__(kBlockThreads)
    FinishKernel(const double* partial, int64_t blocks, OutputLossKind kind, int64_t columns,
                 LossOutput output, float* factor) {
  double mine = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += kBlockThreads) mine += partial[i];
  const double sum = BlockSum(mine);
  if (threadIdx.x != 0) return;
  if (kind != OutputLossKind::kNorm) {
    output.Write(sum / static_cast<double>(columns), 0);
    return;
  }
  const double norm = sqrt(sum);
  const auto rows = static_cast<double>(output.step->count);
  output.Write(norm * rows, 0);
  *factor = norm == 0 ? 0.0f : static_cast<float>(output.step->gradient_scale * rows / norm);
}

template <typename T>
struct NormGradientOf {
  Input<T> input;
  const float* factor;

  template <int N>
  __device__ void At(int64_t first) const {
    auto output = Vector<T, N>::Load(input.outputs + first);
    const int64_t known = input.step->count * input.shape.columns;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      output.values[i] = first + i < known ? *factor * output.values[i] : 0.0f;
    }
    output.Store(input.gradient + first);
  }
};

template <typename T>
int64_t BlocksOf(const OutputLossShape& shape) {
  return BlocksFor(shape.size(), int64_t{kVectorsOfThread} * kBlockThreads * kWidth<T>);
}

template <typename T>
cudaError_t LaunchTerms(cudaStream_t stream, OutputLossKind kind, const Input<T>& input,
                        double* partial) {
  const Grid grid = {static_cast<unsigned>(BlocksOf<T>(input.shape)), kBlockThreads};
  constexpr int N = kWidth<T>;
  switch (kind) {
    case OutputLossKind::kMse:
      return Launch(stream, grid, TermsKernel<OutputLossKind::kMse, N, T>, input, partial);
    case OutputLossKind::kL1:
      return Launch(stream, grid, TermsKernel<OutputLossKind::kL1, N, T>, input, partial);
    case OutputLossKind::kBce:
      return Launch(stream, grid, TermsKernel<OutputLossKind::kBce, N, T>, input, partial);
    case OutputLossKind::kNorm:
      return Launch(stream, grid, TermsKernel<OutputLossKind::kNorm, N, T>, input, partial);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

// A double for each block, and one for the factor.
int64_t OutputLossWorkspace(const OutputLossShape& shape) {
  return (BlocksOf<float>(shape) + 1) * static_cast<int64_t>(sizeof(double));
}

template <typename T>
cudaError_t OutputLoss(cudaStream_t stream, OutputLossKind kind, const T* outputs,
                       const float* targets, const OutputLossShape& shape, const StepInput* step,
                       void* workspace, LossSums* sums, T* gradient, float* tail) {
  if (shape.size() == 0) return cudaSuccess;
  const Input<T> input = {outputs, targets, shape, step, gradient};
  auto* const factor = static_cast<float*>(workspace);
  double* const partial = static_cast<double*>(workspace) + 1;
  cudaError_t result = LaunchTerms(stream, kind, input, partial);
  if (result != cudaSuccess) return result;
  result = Launch(stream, {1, kBlockThreads}, FinishKernel, partial, BlocksOf<T>(shape), kind,
                  shape.columns, LossOutput{step, sums, tail}, factor);
  if (result != cudaSuccess || kind != OutputLossKind::kNorm || gradient == nullptr) return result;
  return ForEach<kWidth<T>>(stream, shape.size(), NormGradientOf<T>{input, factor});
}
template cudaError_t OutputLoss(cudaStream_t, OutputLossKind, const float*, const float*,
                                const OutputLossShape&, const StepInput*, void*, LossSums*, float*,
                                float*);
template cudaError_t OutputLoss(cudaStream_t, OutputLossKind, const bf16*, const float*,
                                const OutputLossShape&, const StepInput*, void*, LossSums*, bf16*,
                                float*);

}  // namespace dp::engine::cuda
