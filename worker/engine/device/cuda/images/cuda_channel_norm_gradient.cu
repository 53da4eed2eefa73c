#include "worker/engine/device/cuda/images/cuda_channel_norm.h"
#include "worker/engine/device/cuda/images/cuda_channel_walk.h"
#include "worker/engine/device/cuda/kernels/cuda_column_sums.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// Rows that a thread has loaded before it uses the first, and rows of each thread where results are
// written row by row.
constexpr int kAhead = 2;
constexpr int kRowsOfThread = 8;

Chunks ChunksOf(const ChannelNormShape& shape) {
  return ColumnChunks(shape.rows(), shape.channels);
}

template <typename T>
struct BackwardInput {
  const T* in;
  const T* relu_out;
  const T* out_gradient;
  const float* weight;
  ChannelMoments moments;
  ChannelNormShape shape;
  const StepInput* step;
  int64_t rows_per_block;

  __device__ int64_t KnownRows() const { return step->count * shape.places; }
};

// N channels of a row as they lie in memory.
template <int N, bool kRelu, typename T>
struct RowPart {
  Packed<T, N> in;
  Packed<T, N> gradient;
  Packed<T, kRelu ? N : 1> relu_out;

  __device__ static RowPart Load(const BackwardInput<T>& input, int64_t at) {
    RowPart part;
    part.in = Packed<T, N>::Load(input.in + at);
    part.gradient = Packed<T, N>::Load(input.out_gradient + at);
    if constexpr (kRelu) part.relu_out = Packed<T, N>::Load(input.relu_out + at);
    return part;
  }

  // The gradient behind the ReLU.
  __device__ Vector<T, N> Passed() const {
    auto value = gradient.Unpacked();
    if constexpr (kRelu) {
      const auto out = relu_out.Unpacked();
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (!(out.values[i] > 0.0f)) value.values[i] = 0.0f;
      }
    }
    return value;
  }
};

// Block (x, y) sums tile y of the channels over chunk x of the rows. chunk_sums[x] receives the
// gradients of the weight, then those of the bias.
template <int N, bool kRelu, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    SumsKernel(BackwardInput<T> input, float* chunk_sums) {
  __shared__ float partial[2][kBlockThreads * N];  // down x across N
  const int64_t channels = input.shape.channels;
  const ChannelWalk<N> walk(channels, input.shape.rows(), input.rows_per_block);
  Vector<float, N> mean = {}, inverse_deviation = {}, weight = {}, bias = {};
  if (walk.on()) {
    mean = Vector<float, N>::Load(input.moments.mean + walk.channel);
    inverse_deviation = Vector<float, N>::Load(input.moments.inverse_deviation + walk.channel);
  }
  walk.template ForRows<kAhead>(
      min(walk.end, input.KnownRows()),
      [&](int64_t at) { return RowPart<N, kRelu, T>::Load(input, at); },
      [&](int64_t, const RowPart<N, kRelu, T>& part) {
        const auto x = part.in.Unpacked();
        const auto gradient = part.Passed();
#pragma unroll
        for (int i = 0; i < N; ++i) {
          weight.values[i] += gradient.values[i] * (x.values[i] - mean.values[i]);
          bias.values[i] += gradient.values[i];
        }
      });
  const int across = blockDim.x;
  const int thread = threadIdx.y * across + threadIdx.x;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    partial[0][thread * N + i] = weight.values[i] * inverse_deviation.values[i];
    partial[1][thread * N + i] = bias.values[i];
  }
  __syncthreads();
  const int64_t channel = static_cast<int64_t>(blockIdx.y) * across * N + thread;
  if (thread >= across * N || channel >= channels) return;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    float sum = 0;
    for (int y = 0; y < static_cast<int>(blockDim.y); ++y) {
      sum += partial[k][y * across * N + thread];
    }
    chunk_sums[(blockIdx.x * 2 + k) * channels + channel] = sum;
  }
}

// x^ is the normed input, g the gradient, n the number of rows that count.
// in_gradient = weight / deviation (g - bias_gradient / n - x^ weight_gradient / n).
template <int N, bool kRelu, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    InputKernel(BackwardInput<T> input, ChannelNormGradients<T> gradients) {
  const ChannelWalk<N> walk(input.shape.channels, input.shape.rows(), input.rows_per_block);
  if (!walk.on()) return;
  const int64_t known = input.KnownRows();
  const float share = known > 0 ? 1.0f / static_cast<float>(known) : 0.0f;
  const auto mean = Vector<float, N>::Load(input.moments.mean + walk.channel);
  auto factor = Vector<float, N>::Load(input.weight + walk.channel);
  auto slope = Vector<float, N>::Load(gradients.weight + walk.channel);
  auto offset = Vector<float, N>::Load(gradients.bias + walk.channel);
  {
    const auto inverse = Vector<float, N>::Load(input.moments.inverse_deviation + walk.channel);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      factor.values[i] *= inverse.values[i];
      slope.values[i] *= share * inverse.values[i];
      offset.values[i] *= share;
    }
  }
  walk.template ForRows<kAhead>(
      walk.end, [&](int64_t at) { return RowPart<N, kRelu, T>::Load(input, at); },
      [&](int64_t at, const RowPart<N, kRelu, T>& part) {
        auto x = part.in.Unpacked();
        const auto gradient = part.Passed();
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float pull = offset.values[i] + slope.values[i] * (x.values[i] - mean.values[i]);
          x.values[i] = factor.values[i] * (gradient.values[i] - pull);
          if (at >= known * input.shape.channels) x.values[i] = 0.0f;
        }
        x.Store(gradients.in + at);
      });
}

template <int N, bool kRelu, typename T>
cudaError_t Backward(cudaStream_t stream, BackwardInput<T> input, float* workspace,
                     ChannelNormGradients<T> gradients) {
  const int64_t channels = input.shape.channels, rows = input.shape.rows();
  const Chunks chunks = ChunksOf(input.shape);
  input.rows_per_block = chunks.rows_per_chunk;
  cudaError_t result = Launch(stream, WalkGrid<N>(channels, rows, chunks.rows_per_chunk),
                              SumsKernel<N, kRelu, T>, input, workspace);
  if (result != cudaSuccess) return result;
  result = SumChunks(stream, workspace, {chunks.count, 2 * channels},
                     {channels, gradients.weight, gradients.bias});
  if (result != cudaSuccess || gradients.in == nullptr) return result;
  input.rows_per_block = kRowsOfThread * (kBlockThreads / ColumnThreads(channels, N));
  return Launch(stream, WalkGrid<N>(channels, rows, input.rows_per_block), InputKernel<N, kRelu, T>,
                input, gradients);
}

}  // namespace

template <typename T>
cudaError_t ChannelNormBackward(cudaStream_t stream, const T* in, const T* relu_out,
                                const T* out_gradient, const float* weight, ChannelMoments moments,
                                const ChannelNormShape& shape, const StepInput* step,
                                float* workspace, ChannelNormGradients<T> gradients) {
  if (shape.rows() == 0) return cudaSuccess;
  const BackwardInput<T> input = {in, relu_out, out_gradient, weight, moments, shape, step, 0};
  return WithWalk<T>(shape.channels, [&]<int N>() {
    return relu_out == nullptr ? Backward<N, false>(stream, input, workspace, gradients)
                               : Backward<N, true>(stream, input, workspace, gradients);
  });
}
template cudaError_t ChannelNormBackward(cudaStream_t, const float*, const float*, const float*,
                                         const float*, ChannelMoments, const ChannelNormShape&,
                                         const StepInput*, float*, ChannelNormGradients<float>);
template cudaError_t ChannelNormBackward(cudaStream_t, const bf16*, const bf16*, const bf16*,
                                         const float*, ChannelMoments, const ChannelNormShape&,
                                         const StepInput*, float*, ChannelNormGradients<bf16>);

}  // namespace dp::engine::cuda
