#include "worker/engine/device/cuda/kernels/cuda_column_sums.h"

#include "worker/engine/device/cuda/kernels/cuda_column_chunks.h"
#include "worker/engine/device/cuda/kernels/cuda_launch.h"
#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"
#include "worker/engine/device/cuda/kernels/cuda_warp.h"

namespace dp::engine::cuda {
namespace {

Chunks ChunksOf(Matrix shape, bool relu) {
  return ColumnChunks(shape.rows, shape.columns, relu ? kReluColumnBlocks : kColumnBlocks);
}

template <typename T>
struct ColumnSumsInput {
  const T* in;
  Matrix shape;
  int64_t rows_per_chunk;
  const T* relu_out;  // null, or the output of the ReLU to pass back through
  T* gradient;        // receives `in` after that ReLU's backward
};

// Rows that a thread loads before it stores one. A ReLU's gradient is written in place, so a load
// after that store would wait for it.
constexpr int kAhead = 4;
constexpr int kBlocksTogether = 3;

// N columns of a row as they lie in memory; with kRelu also the ReLU's output.
template <int N, bool kRelu, typename T>
struct RowPart {
  Packed<T, N> in;
  Packed<T, kRelu ? N : 1> relu_out;

  __device__ static RowPart Load(const ColumnSumsInput<T>& input, int64_t first) {
    RowPart part;
    part.in = Packed<T, N>::Load(input.in + first);
    if constexpr (kRelu) part.relu_out = Packed<T, N>::Load(input.relu_out + first);
    return part;
  }

  __device__ Vector<T, N> Pass(const ColumnSumsInput<T>& input, int64_t first) const {
    auto value = in.Unpacked();
    if constexpr (kRelu) {
      const auto out = relu_out.Unpacked();
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (!(out.values[i] > 0.0f)) value.values[i] = 0.0f;
      }
      Packed<T, N>::Of(value).StoreWhole(input.gradient + first);
    }
    return value;
  }
};

// Adds up every `step`-th row from `row` to `end`, first to last.
template <int N, bool kRelu, typename T>
__device__ Vector<T, N> SumOfRows(const ColumnSumsInput<T>& input, int64_t column, int64_t row,
                                  int64_t end, int step) {
  Vector<T, N> total = {};
  for (; row < end; row += kAhead * step) {
    RowPart<N, kRelu, T> parts[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t at = row + k * step;
      if (at < end) parts[k] = RowPart<N, kRelu, T>::Load(input, at * input.shape.columns + column);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t at = row + k * step;
      if (at >= end) break;
      const auto value = parts[k].Pass(input, at * input.shape.columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) total.values[i] += value.values[i];
    }
  }
  return total;
}

// Block (x, y) sums tile x of the columns over chunk y of the rows. With one chunk these sums are
// the results; otherwise they are rows of chunk sums, which another launch adds up.
template <int N, bool kRelu, typename T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksTogether)
    ColumnSumsKernel(ColumnSumsInput<T> input, SplitSums sums) {
  __shared__ float partial[kBlockThreads * N];  // down x across N
  const int across = blockDim.x;
  const int down = blockDim.y;
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * across * N;
  const int64_t column = tile + threadIdx.x * N;
  const int64_t begin = blockIdx.y * input.rows_per_chunk;
  const int64_t end = min(begin + input.rows_per_chunk, input.shape.rows);
  Vector<T, N> total = {};
  if (column < input.shape.columns) {
    total = SumOfRows<N, kRelu>(input, column, begin + threadIdx.y, end, down);
  }
  const int thread = threadIdx.y * across + threadIdx.x;
#pragma unroll
  for (int i = 0; i < N; ++i) partial[thread * N + i] = total.values[i];
  __syncthreads();
  const int64_t mine = tile + thread;
  if (thread >= across * N || mine >= input.shape.columns) return;
  float sum = 0;
  for (int i = 0; i < down; ++i) sum += partial[i * across * N + thread];
  float* to = mine < sums.split ? sums.first + blockIdx.y * input.shape.columns + mine
                                : sums.second + mine - sums.split;
  *to = sum;
}

template <int N, typename T>
cudaError_t LaunchColumnSums(cudaStream_t stream, const ColumnSumsInput<T>& input, int64_t chunks,
                             SplitSums sums) {
  static_assert(kWarpThreads * N <= kBlockThreads);
  const int across = ColumnThreads(input.shape.columns, N);
  const dim3 grid(BlocksFor(input.shape.columns, across * N), static_cast<unsigned>(chunks));
  const dim3 block(across, kBlockThreads / across);
  const Grid blocks = {grid, block};
  if (input.relu_out == nullptr) {
    return Launch(stream, blocks, ColumnSumsKernel<N, false, T>, input, sums);
  }
  return Launch(stream, blocks, ColumnSumsKernel<N, true, T>, input, sums);
}

// Runs both stages. If rows are not a multiple of 16 bytes, elements are loaded one by one.
template <typename T>
cudaError_t SumColumns(cudaStream_t stream, ColumnSumsInput<T> input, float* workspace,
                       float* sums) {
  if (input.shape.size() == 0) return cudaSuccess;
  const Chunks chunks = ChunksOf(input.shape, input.relu_out != nullptr);
  input.rows_per_chunk = chunks.rows_per_chunk;
  const bool one = chunks.count == 1;
  const SplitSums to = {input.shape.columns, one ? sums : workspace, nullptr};
  const cudaError_t result = input.shape.columns % kWidth<T> == 0
                                 ? LaunchColumnSums<kWidth<T>>(stream, input, chunks.count, to)
                                 : LaunchColumnSums<1>(stream, input, chunks.count, to);
  if (one || result != cudaSuccess) return result;
  return SumChunks(stream, workspace, {chunks.count, input.shape.columns},
                   {input.shape.columns, sums, nullptr});
}

// Enough threads to load a small network's images at once.
constexpr int kChannelThreads = 1024;

// One channel of samples x channels x places, behind a ReLU.
template <typename T>
struct Channel {
  const T* relu_out;
  T* gradient;
  int64_t sample_size;

  // The sum over every `step`-th sample at one place, first to last.
  __device__ float SumOf(int sample, int step, int samples) const {
    constexpr int kLoads = 8;
    float total = 0;
    for (; sample < samples; sample += kLoads * step) {
      float values[kLoads], outs[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int64_t at = (sample + k * step) * sample_size;
        const bool is = sample + k * step < samples;
        values[k] = is ? ToFloat(gradient[at]) : 0.0f;
        outs[k] = is ? ToFloat(relu_out[at]) : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int64_t at = (sample + k * step) * sample_size;
        const float value = outs[k] > 0.0f ? values[k] : 0.0f;
        if (sample + k * step < samples) gradient[at] = FromFloat<T>(value);
        total += value;
      }
    }
    return total;
  }
};

// Block c sums channel c. Neighbouring threads take neighbouring places, and each row of threads
// takes samples of its own. Then each warp is summed, and the warps' sums are added first to last.
template <typename T>
__global__ void __launch_bounds__(kChannelThreads)
    ChannelSumsKernel(const T* relu_out, Matrix shape, int places, T* gradient, float* sums) {
  constexpr int kWarps = kChannelThreads / kWarpThreads;
  __shared__ float warps[kWarps];
  const int across = min(places, kChannelThreads);
  const int down = kChannelThreads / across;
  const int row = static_cast<int>(threadIdx.x) / across;
  float total = 0;
  for (int place = threadIdx.x % across; row < down && place < places; place += across) {
    const int64_t first = int64_t{blockIdx.x} * places + place;
    const Channel<T> channel = {relu_out + first, gradient + first, shape.columns * places};
    total += channel.SumOf(row, down, static_cast<int>(shape.rows));
  }
  total = WarpSum(total);
  if (threadIdx.x % kWarpThreads == 0) warps[threadIdx.x / kWarpThreads] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += warps[warp];
  sums[blockIdx.x] = sum;
}

}  // namespace

int64_t ColumnSumsWorkspace(Matrix shape) {
  if (shape.size() == 0) return 0;
  const Chunks chunks = ChunksOf(shape, /*relu=*/false);  // a ReLU's are no more
  return chunks.count == 1 ? 0 : chunks.count * shape.columns;
}

template <typename T>
cudaError_t ColumnSums(cudaStream_t stream, const T* in, Matrix shape, float* workspace,
                       float* sums) {
  return SumColumns(stream, ColumnSumsInput<T>{in, shape, 0, nullptr, nullptr}, workspace, sums);
}
template cudaError_t ColumnSums(cudaStream_t, const float*, Matrix, float*, float*);
template cudaError_t ColumnSums(cudaStream_t, const bf16*, Matrix, float*, float*);

template <typename T>
cudaError_t ReluBackwardColumnSums(cudaStream_t stream, const T* relu_out, Matrix shape,
                                   float* workspace, T* gradient, float* sums) {
  return SumColumns(stream, ColumnSumsInput<T>{gradient, shape, 0, relu_out, gradient}, workspace,
                    sums);
}
template cudaError_t ReluBackwardColumnSums(cudaStream_t, const float*, Matrix, float*, float*,
                                            float*);
template cudaError_t ReluBackwardColumnSums(cudaStream_t, const bf16*, Matrix, float*, bf16*,
                                            float*);

template <typename T>
cudaError_t ReluBackwardChannelSums(cudaStream_t stream, const T* relu_out, Matrix shape,
                                    int64_t places, T* gradient, float* sums) {
  if (shape.columns == 0) return cudaSuccess;
  const Grid grid = {static_cast<unsigned>(shape.columns), kChannelThreads};
  return Launch(stream, grid, ChannelSumsKernel<T>, relu_out, shape, static_cast<int>(places),
                gradient, sums);
}
template cudaError_t ReluBackwardChannelSums(cudaStream_t, const float*, Matrix, int64_t, float*,
                                             float*);
template cudaError_t ReluBackwardChannelSums(cudaStream_t, const bf16*, Matrix, int64_t, bf16*,
                                             float*);

cudaError_t SumChunks(cudaStream_t stream, const float* chunk_sums, Matrix shape, SplitSums sums) {
  const ColumnSumsInput<float> input = {chunk_sums, shape, shape.rows, nullptr, nullptr};
  return LaunchColumnSums<1>(stream, input, 1, sums);
}

}  // namespace dp::engine::cuda
