#include "worker/engine/device/cuda/images/cuda_channel_norm.h"

#include "worker/engine/device/cuda/images/cuda_channel_walk.h"
#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_function_values.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

using Relu = FunctionValues<Function::kRelu>;

// Rows that a thread has loaded before it uses the first.
constexpr int kAhead = 4;
// Rows of each thread where results are written row by row.
constexpr int kRowsOfThread = 8;

Chunks ChunksOf(const ChannelNormShape& shape) {
  return ColumnChunks(shape.rows(), shape.channels);
}

// The rows that count. A null `step` counts all.
__device__ int64_t KnownRows(const ChannelNormShape& shape, const StepInput* step) {
  return step == nullptr ? shape.rows() : step->count * shape.places;
}

// Block (x, y) measures tile y of the channels over chunk x of the rows. chunk_moments[x] receives
// the means, then the sums of squared distances from them.
template <int N, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    MeasureKernel(const T* in, ChannelNormShape shape, const StepInput* step,
                  int64_t rows_per_chunk, float* chunk_moments) {
  __shared__ float means[kBlockThreads * N], squares[kBlockThreads * N];  // down x across N
  const ChannelWalk<N> walk(shape.channels, shape.rows(), rows_per_chunk);
  const int64_t last = min(walk.end, KnownRows(shape, step));
  const int64_t count = last - walk.begin;
  Vector<T, N> shift = {}, sum = {}, square = {};
  // Around the thread's first row, so that a mean far from 0 costs no digits.
  if (walk.on() && static_cast<int64_t>(threadIdx.y) < count) {
    shift = Vector<T, N>::Load(in + (walk.begin + threadIdx.y) * shape.channels + walk.channel);
  }
  walk.template ForRows<kAhead>(
      last, [&](int64_t at) { return Packed<T, N>::Load(in + at); },
      [&](int64_t, const Packed<T, N>& part) {
        const auto value = part.Unpacked();
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float distance = value.values[i] - shift.values[i];
          sum.values[i] += distance;
          square.values[i] += distance * distance;
        }
      });
  const auto rows = static_cast<float>(ChannelWalk<N>::RowsOf(threadIdx.y, count));
  const int across = blockDim.x;
  const int thread = threadIdx.y * across + threadIdx.x;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float mean = rows > 0 ? sum.values[i] / rows : 0.0f;
    means[thread * N + i] = shift.values[i] + mean;
    squares[thread * N + i] = fmaxf(square.values[i] - sum.values[i] * mean, 0.0f);
  }
  __syncthreads();
  const int64_t channel = static_cast<int64_t>(blockIdx.y) * across * N + thread;
  if (thread >= across * N || channel >= shape.channels) return;
  float mean = 0;
  for (int y = 0; y < static_cast<int>(blockDim.y); ++y) {
    const auto weight = static_cast<float>(ChannelWalk<N>::RowsOf(y, count));
    if (weight > 0) mean += weight * means[y * across * N + thread];
  }
  if (count > 0) mean /= static_cast<float>(count);
  float total = 0;
  for (int y = 0; y < static_cast<int>(blockDim.y); ++y) {
    const auto weight = static_cast<float>(ChannelWalk<N>::RowsOf(y, count));
    const float distance = means[y * across * N + thread] - mean;
    if (weight > 0) total += squares[y * across * N + thread] + weight * distance * distance;
  }
  float* to = chunk_moments + blockIdx.x * 2 * shape.channels + channel;
  to[0] = mean;
  to[shape.channels] = total;
}

constexpr int kJoinRows = kBlockThreads / kWarpThreads;

// Adds term(chunk) over the chunks; every thread of a channel gets the sum. Threads of row y add
// every kJoinRows-th chunk, then the rows are added first to last.
template <typename Term>
__device__ double SumOverChunks(int64_t chunks, Term term) {
  __shared__ double parts[kJoinRows][kWarpThreads];
  double sum = 0;
#pragma unroll 4
  for (int64_t chunk = threadIdx.y; chunk < chunks; chunk += kJoinRows) sum += term(chunk);
  __syncthreads();  // all have read the previous sums
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  double all = 0;
#pragma unroll
  for (int y = 0; y < kJoinRows; ++y) all += parts[y][threadIdx.x];
  return all;
}

struct JoinInput {
  const float* chunk_moments;
  ChannelNormShape shape;
  const StepInput* step;
  Chunks chunks;
  double epsilon;
};

// A warp's lanes have neighbouring channels.
__global__ void __launch_bounds__(kBlockThreads) JoinKernel(JoinInput input, ChannelMoments to) {
  const int64_t channels = input.shape.channels;
  const int64_t mine = static_cast<int64_t>(blockIdx.x) * kWarpThreads + threadIdx.x;
  const int64_t channel = min(mine, channels - 1);
  const int64_t known = KnownRows(input.shape, input.step);
  const auto rows_of = [&](int64_t chunk) {
    const int64_t rows = known - chunk * input.chunks.rows_per_chunk;
    return static_cast<double>(rows < 0 ? 0 : min(rows, input.chunks.rows_per_chunk));
  };
  const float* from = input.chunk_moments + channel;
  const auto count = static_cast<double>(known);
  const double sum = SumOverChunks(input.chunks.count,
                                   [&](int64_t i) { return rows_of(i) * from[i * 2 * channels]; });
  const double mean = known > 0 ? sum / count : 0;
  const double squares = SumOverChunks(input.chunks.count, [&](int64_t i) {
    const double distance = from[i * 2 * channels] - mean;
    const double rows = rows_of(i);
    return rows > 0 ? from[(i * 2 + 1) * channels] + rows * distance * distance : 0.0;
  });
  if (threadIdx.y != 0 || mine >= channels) return;
  const double variance = known > 0 ? squares / count : 0;
  to.mean[mine] = static_cast<float>(mean);
  to.inverse_deviation[mine] = static_cast<float>(1 / sqrt(variance + input.epsilon));
  // A single value has no variance, and counts as 0.
  to.variance[mine] = static_cast<float>(known > 1 ? squares / (count - 1) : variance);
}

struct TakeRunningOf {
  const float* mean;
  const float* variance;
  double epsilon;
  ChannelMoments to;

  template <int N>
  __device__ void At(int64_t channel) const {
    to.mean[channel] = mean[channel];
    to.variance[channel] = variance[channel];
    to.inverse_deviation[channel] = static_cast<float>(1 / sqrt(variance[channel] + epsilon));
  }
};

struct PassOf {
  ChannelMoments moments;
  const StepInput* step;
  int64_t rows_per_sample;
  float* mean_gradient;
  float* variance_gradient;

  template <int N>
  __device__ void At(int64_t channel) const {
    const float share = step->gradient_scale * static_cast<float>(step->count * rows_per_sample);
    mean_gradient[channel] = moments.mean[channel] * share;
    variance_gradient[channel] = moments.variance[channel] * share;
  }
};

template <int N, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    ForwardKernel(const T* in, ChannelNormParameters parameters, ChannelMoments moments,
                  ChannelNormShape shape, const StepInput* step, int64_t rows_per_block, T* out) {
  const ChannelWalk<N> walk(shape.channels, shape.rows(), rows_per_block);
  if (!walk.on()) return;
  const int64_t known = KnownRows(shape, step) * shape.channels;
  const auto mean = Vector<float, N>::Load(moments.mean + walk.channel);
  const auto bias = Vector<float, N>::Load(parameters.bias + walk.channel);
  const auto weight = Vector<float, N>::Load(parameters.weight + walk.channel);
  auto factor = Vector<float, N>::Load(moments.inverse_deviation + walk.channel);
#pragma unroll
  for (int i = 0; i < N; ++i) factor.values[i] *= weight.values[i];
  walk.template ForRows<kAhead>(
      walk.end, [&](int64_t at) { return Packed<T, N>::Load(in + at); },
      [&](int64_t at, const Packed<T, N>& part) {
        auto value = part.Unpacked();
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float x = (value.values[i] - mean.values[i]) * factor.values[i] + bias.values[i];
          const float y = parameters.relu ? Relu::Value<T>(x) : x;
          value.values[i] = at < known ? y : 0.0f;
        }
        value.Store(out + at);
      });
}

}  // namespace

int64_t ChannelNormWorkspace(const ChannelNormShape& shape) {
  return shape.rows() == 0 ? 0 : ChunksOf(shape).count * 2 * shape.channels;
}

template <typename T>
cudaError_t MeasureChannels(cudaStream_t stream, const T* in, const ChannelNormShape& shape,
                            const StepInput* step, double epsilon, float* workspace,
                            ChannelMoments moments) {
  if (shape.rows() == 0) return cudaSuccess;
  const Chunks chunks = ChunksOf(shape);
  const cudaError_t measured = WithWalk<T>(shape.channels, [&]<int N>() {
    return Launch(stream, WalkGrid<N>(shape.channels, shape.rows(), chunks.rows_per_chunk),
                  MeasureKernel<N, T>, in, shape, step, chunks.rows_per_chunk, workspace);
  });
  if (measured != cudaSuccess) return measured;
  const Grid grid = {BlocksFor(shape.channels, kWarpThreads), dim3(kWarpThreads, kJoinRows)};
  return Launch(stream, grid, JoinKernel, JoinInput{workspace, shape, step, chunks, epsilon},
                moments);
}
template cudaError_t MeasureChannels(cudaStream_t, const float*, const ChannelNormShape&,
                                     const StepInput*, double, float*, ChannelMoments);
template cudaError_t MeasureChannels(cudaStream_t, const bf16*, const ChannelNormShape&,
                                     const StepInput*, double, float*, ChannelMoments);

cudaError_t TakeRunningMoments(cudaStream_t stream, const float* running_mean,
                               const float* running_variance, int64_t channels, double epsilon,
                               ChannelMoments moments) {
  return ForEach<1>(stream, channels,
                    TakeRunningOf{running_mean, running_variance, epsilon, moments});
}

template <typename T>
cudaError_t ChannelNormForward(cudaStream_t stream, const T* in, ChannelNormParameters parameters,
                               ChannelMoments moments, const ChannelNormShape& shape,
                               const StepInput* step, T* out) {
  if (shape.rows() == 0) return cudaSuccess;
  return WithWalk<T>(shape.channels, [&]<int N>() {
    const int64_t rows = kRowsOfThread * (kBlockThreads / ColumnThreads(shape.channels, N));
    return Launch(stream, WalkGrid<N>(shape.channels, shape.rows(), rows), ForwardKernel<N, T>, in,
                  parameters, moments, shape, step, rows, out);
  });
}
template cudaError_t ChannelNormForward(cudaStream_t, const float*, ChannelNormParameters,
                                        ChannelMoments, const ChannelNormShape&, const StepInput*,
                                        float*);
template cudaError_t ChannelNormForward(cudaStream_t, const bf16*, ChannelNormParameters,
                                        ChannelMoments, const ChannelNormShape&, const StepInput*,
                                        bf16*);

cudaError_t PassMoments(cudaStream_t stream, ChannelMoments moments, int64_t channels,
                        const StepInput* step, int64_t rows_per_sample, float* mean_gradient,
                        float* variance_gradient) {
  return ForEach<1>(stream, channels,
                    PassOf{moments, step, rows_per_sample, mean_gradient, variance_gradient});
}

}  // namespace dp::engine::cuda
