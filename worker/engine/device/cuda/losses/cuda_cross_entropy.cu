#include "worker/engine/device/cuda/losses/cuda_cross_entropy.h"

#include <cfloat>

#include "worker/engine/device/cuda/kernels/cuda_exponential.h"
#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"
#include "worker/engine/device/cuda/kernels/cuda_warp.h"
#include "worker/engine/device/cuda/losses/cuda_narrow_rows.h"

namespace dp::engine::cuda {
namespace {

// A warp does a row of up to this many classes, a block a wider row.
constexpr int64_t kWarpClassesMax = 1024;
constexpr int kWideThreads = 512;
constexpr int kSumThreads = kOneBlockRowsMax;

// A wide row waits in shared memory between its two uses if a multiprocessor holds this many: one
// row is read while another is written. Beside its row a block needs some bytes for the system and
// for joining its threads.
constexpr int kRowsTogether = 2;
constexpr int64_t kSharedBesideRow = 2048;

// Loads that a thread has in flight at once.
constexpr int kAhead = 4;

// The result of a row.
struct RowResult {
  float loss;
  int32_t correct;
};

// The largest of some logits, and the sum of the exponentials of each logit less the largest.
struct Softmax {
  // Finite, so that its difference to itself is 0.
  float largest = -FLT_MAX;
  float sum = 0;

  template <typename T>
  __device__ void Join(const Softmax& other) {
    const float both = fmaxf(largest, other.largest);
    sum = sum * Exp<T>(largest - both) + other.sum * Exp<T>(other.largest - both);
    largest = both;
  }
};

template <typename T>
struct Input {
  const T* logits;
  const int32_t* labels;
  LogitsShape shape;
  const StepInput* step;
  RowResult* results;
  T* gradient;
};

// One row, as its threads see it. N elements of a row are loaded at once. With kKept each thread
// keeps the columns that it has read in shared memory.
template <int N, bool kKept, typename T>
struct Row {
  const T* logits;
  int classes;
  int32_t label;
  float of_label;  // the label's logit
  T* kept;

  // Adds N columns to `all`. Returns whether one of them beats the label as the largest: it is
  // larger, or equal and further left.
  __device__ bool Take(int column, const Packed<T, N>& part, Softmax& all) const {
    if constexpr (kKept) part.Store(kept + column);
    const auto value = Columns(column, part);
    Softmax these;
#pragma unroll
    for (int i = 0; i < N; ++i) these.largest = fmaxf(these.largest, value.values[i]);
    const float both = fmaxf(all.largest, these.largest);
    float sum = all.sum * Exp<T>(all.largest - both);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += Exp<T>(value.values[i] - both);
    all.sum = sum;
    all.largest = both;
    if (these.largest != of_label) return these.largest > of_label;
    bool before = false;
#pragma unroll
    for (int i = 0; i < N; ++i) before |= value.values[i] == of_label && column + i < label;
    return before;
  }

  // Columns at or above `classes` do not count: their exponential is 0.
  __device__ Vector<T, N> Columns(int column, const Packed<T, N>& part) const {
    auto value = part.Unpacked();
    if (column + N <= classes) return value;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (column + i >= classes) value.values[i] = -INFINITY;
    }
    return value;
  }

  // The part that Take has seen; zeroes for columns at or above `classes`.
  __device__ Packed<T, N> Again(int column) const {
    if (column >= classes) return {};
    if constexpr (kKept) return Packed<T, N>::Load(kept + column);
    return Packed<T, N>::Load(logits + column);
  }

  __device__ void WriteGradient(int column, const Packed<T, N>& part, float log_sum, float scale,
                                T* to) const {
    auto value = Columns(column, part);
#pragma unroll
    for (int i = 0; i < N; ++i) value.values[i] = Exp<T>(value.values[i] - log_sum) * scale;
    if (column <= label && label < column + N) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (column + i == label) value.values[i] = (Exp<T>(of_label - log_sum) - 1.0f) * scale;
      }
    }
    value.Store(to + column);
  }
};

// Calls use(column, load(column)) for one thread's columns below `end`, which lie `step` apart.
// Several columns are loaded before the first of them is used.
template <typename Load, typename Use>
__device__ void ForColumns(int first, int step, int end, Load load, Use use) {
  for (int column = first; column < end; column += kAhead * step) {
    decltype(load(column)) parts[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (column + i * step < end) parts[i] = load(column + i * step);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (column + i * step < end) use(column + i * step, parts[i]);
    }
  }
}

// Joins the results of a row's threads in one order and gives the result to all of them. `beaten`
// becomes whether any thread set it.
template <int kThreads, typename T>
__device__ Softmax JoinThreads(Softmax mine, bool& beaten) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    Softmax other;
    other.largest = __shfl_xor_sync(kWholeWarp, mine.largest, distance);
    other.sum = __shfl_xor_sync(kWholeWarp, mine.sum, distance);
    mine.Join<T>(other);
  }
  if constexpr (kThreads == kWarpThreads) {
    beaten = __any_sync(kWholeWarp, beaten);
    __syncwarp();
    return mine;
  } else {
    constexpr int kWarps = kThreads / kWarpThreads;
    __shared__ Softmax warps[kWarps];
    if (threadIdx.x % kWarpThreads == 0) warps[threadIdx.x / kWarpThreads] = mine;
    beaten = __syncthreads_or(beaten);
    Softmax all = warps[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) all.Join<T>(warps[warp]);
    return all;
  }
}

template <int N, typename T>
__device__ void WriteZeroes(int first, int step, int stride, T* to) {
  const Vector<T, N> zeroes = {};
  for (int column = first; column < stride; column += step) zeroes.Store(to + column);
}

// kThreads along x do a row. All of them have read the row's logits before one overwrites any.
template <int kThreads, int N, bool kKept, typename T>
__global__ void __launch_bounds__(kThreads == kWarpThreads ? kBlockThreads : kThreads,
                                  kRowsTogether) RowKernel(Input<T> input) {
  const LogitsShape& shape = input.shape;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (r >= shape.rows()) return;
  T* gradient = input.gradient == nullptr ? nullptr : input.gradient + r * shape.stride;
  const int stride = static_cast<int>(shape.stride);
  const int first = static_cast<int>(threadIdx.x) * N;
  constexpr int kStep = kThreads * N;
  if (r >= input.step->count * shape.rows_per_sample) {
    if (threadIdx.x == 0) input.results[r] = {0.0f, 0};
    if (gradient != nullptr) WriteZeroes<N>(first, kStep, stride, gradient);
    return;
  }
  Row<N, kKept, T> row = {input.logits + r * shape.stride, static_cast<int>(shape.classes),
                          input.labels[r], 0, nullptr};
  if constexpr (kKept) row.kept = reinterpret_cast<T*>(DynamicShared());
  row.of_label = ToFloat(row.logits[row.label]);
  Softmax softmax;
  bool beaten = false;
  ForColumns(
      first, kStep, row.classes,
      [&](int column) { return Packed<T, N>::Load(row.logits + column); },
      [&](int column, const auto& part) { beaten |= row.Take(column, part, softmax); });
  softmax = JoinThreads<kThreads, T>(softmax, beaten);
  const float log_sum = softmax.largest + logf(softmax.sum);
  if (threadIdx.x == 0) input.results[r] = {log_sum - row.of_label, beaten ? 0 : 1};
  if (gradient == nullptr) return;
  const float scale = input.step->gradient_scale;
  ForColumns(
      first, kStep, stride, [&](int column) { return row.Again(column); },
      [&](int column, const auto& part) {
        row.WriteGradient(column, part, log_sum, scale, gradient);
      });
}

// Adds the values of a block's threads: each round adds the upper half to the lower half.
__device__ void SumThreads(double loss, int64_t correct, const LossOutput& output) {
  __shared__ double losses[kSumThreads];
  __shared__ int64_t corrects[kSumThreads];
  losses[threadIdx.x] = loss;
  corrects[threadIdx.x] = correct;
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= half) continue;
    losses[threadIdx.x] += losses[threadIdx.x + half];
    corrects[threadIdx.x] += corrects[threadIdx.x + half];
  }
  if (threadIdx.x == 0) output.Write(losses[0], corrects[0]);
}

// One block: thread t adds rows t, t + 1024, ...
__global__ void __launch_bounds__(kSumThreads)
    SumKernel(const RowResult* results, int64_t rows, LossOutput output) {
  double loss = 0;
  int64_t correct = 0;
#pragma unroll 8
  for (int64_t row = threadIdx.x; row < rows; row += kSumThreads) {
    loss += results[row].loss;
    correct += results[row].correct;
  }
  SumThreads(loss, correct, output);
}

// A row that one thread does.
template <typename T>
__device__ RowResult DoNarrowRow(const Input<T>& input, int r) {
  const int classes = static_cast<int>(input.shape.classes);
  const int stride = static_cast<int>(input.shape.stride);
  const T* logits = input.logits + r * stride;
  T* gradient = input.gradient == nullptr ? nullptr : input.gradient + r * stride;
  if (r >= input.step->count * input.shape.rows_per_sample) {
    for (int c = 0; c < stride && gradient != nullptr; ++c) gradient[c] = FromFloat<T>(0.0f);
    return {0.0f, 0};
  }
  const int label = input.labels[r];
  const float of_label = ToFloat(logits[label]);
  float largest = -FLT_MAX;
  bool beaten = false;
#pragma unroll 8
  for (int c = 0; c < classes; ++c) {
    const float logit = ToFloat(logits[c]);
    largest = fmaxf(largest, logit);
    beaten |= logit > of_label || (logit == of_label && c < label);
  }
  float sum = 0;
#pragma unroll 8
  for (int c = 0; c < classes; ++c) sum += Exp<T>(ToFloat(logits[c]) - largest);
  const float log_sum = largest + logf(sum);
  for (int c = 0; c < stride && gradient != nullptr; ++c) {
    const float probability = c < classes ? Exp<T>(ToFloat(logits[c]) - log_sum) : 0.0f;
    gradient[c] =
        FromFloat<T>((probability - (c == label ? 1.0f : 0.0f)) * input.step->gradient_scale);
  }
  return {log_sum - of_label, beaten ? 0 : 1};
}

// One block, a thread for each row. For a small network's few rows and classes, whose sums then
// need no launch of their own.
template <typename T>
__global__ void __launch_bounds__(kSumThreads) NarrowKernel(Input<T> input, LossOutput output) {
  const int r = static_cast<int>(threadIdx.x);
  const RowResult result = r < input.shape.rows() ? DoNarrowRow(input, r) : RowResult{0.0f, 0};
  SumThreads(result.loss, result.correct, output);
}

// Whether a multiprocessor of the card has room for kRowsTogether rows of `row_bytes`. Results have
// the same bits either way.
bool FitTogether(int64_t row_bytes) {
  int device = 0;
  int bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  const cudaError_t asked =
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  return asked == cudaSuccess && kRowsTogether * (row_bytes + kSharedBesideRow) <= bytes;
}

template <int N, typename T>
cudaError_t LaunchWideRows(cudaStream_t stream, const Input<T>& input) {
  const auto rows = static_cast<unsigned>(input.shape.rows());
  const int64_t row_bytes = input.shape.stride * static_cast<int64_t>(sizeof(T));
  if (input.gradient == nullptr || !FitTogether(row_bytes)) {
    return Launch(stream, {rows, kWideThreads}, RowKernel<kWideThreads, N, false, T>, input);
  }
  const auto kernel = RowKernel<kWideThreads, N, true, T>;
  const int shared = static_cast<int>(row_bytes);
  const void* const address = reinterpret_cast<const void*>(kernel);
  cudaError_t allowed =
      cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  // Caches and shared memory divide one memory. Unless the latter gets its largest share, a
  // multiprocessor holds one row alone.
  if (allowed == cudaSuccess) {
    allowed = cudaFuncSetAttribute(address, cudaFuncAttributePreferredSharedMemoryCarveout,
                                   cudaSharedmemCarveoutMaxShared);
  }
  if (allowed != cudaSuccess) return allowed;
  return Launch(stream, {rows, kWideThreads, shared}, kernel, input);
}

template <int N, typename T>
cudaError_t LaunchRows(cudaStream_t stream, const Input<T>& input) {
  const int64_t rows = input.shape.rows();
  if (rows == 0) return cudaSuccess;
  if (input.shape.classes > kWarpClassesMax) return LaunchWideRows<N>(stream, input);
  constexpr int kRows = kBlockThreads / kWarpThreads;
  const Grid grid = {BlocksFor(rows, kRows), dim3(kWarpThreads, kRows)};
  return Launch(stream, grid, RowKernel<kWarpThreads, N, false, T>, input);
}

}  // namespace

int64_t CrossEntropyWorkspace(LogitsShape shape) {
  return shape.rows() * static_cast<int64_t>(sizeof(RowResult));
}

template <typename T>
cudaError_t SoftmaxCrossEntropy(cudaStream_t stream, const T* logits, const int32_t* labels,
                                LogitsShape shape, const StepInput* step, void* workspace,
                                LossSums* sums, T* gradient, float* tail) {
  const Input<T> input = {logits,  labels, shape, step, static_cast<RowResult*>(workspace),
                          gradient};
  const LossOutput output = {step, sums, tail};
  if (IsNarrow(shape.stride, shape.rows())) {
    return Launch(stream, {1, kSumThreads}, NarrowKernel<T>, input, output);
  }
  const cudaError_t result = shape.stride % kWidth<T> == 0 ? LaunchRows<kWidth<T>>(stream, input)
                                                           : LaunchRows<1>(stream, input);
  if (result != cudaSuccess) return result;
  return Launch(stream, {1, kSumThreads}, SumKernel, input.results, shape.rows(), output);
}
template cudaError_t SoftmaxCrossEntropy(cudaStream_t, const float*, const int32_t*, LogitsShape,
                                         const StepInput*, void*, LossSums*, float*, float*);
template cudaError_t SoftmaxCrossEntropy(cudaStream_t, const bf16*, const int32_t*, LogitsShape,
                                         const StepInput*, void*, LossSums*, bf16*, float*);

}  // namespace dp::engine::cuda
