#include "worker/engine/device/cuda/kernels/cuda_column_sums.h"
#include "worker/engine/device/cuda/kernels/cuda_layer_norm.h"
#include "worker/engine/device/cuda/kernels/cuda_layer_norm_row.h"

namespace dp::engine::cuda {
namespace {

// Warps of a block; a block goes over a chunk of rows.
constexpr int kWarps = kBlockThreads / kWarpThreads;

// Two blocks for each multiprocessor of a large card, and enough rows to make a block worth its
// start.
constexpr int64_t kChunksMost = 264;
constexpr int64_t kRowsLeast = 16;

Chunks ChunksOf(Matrix shape) { return CutRows(shape.rows, kRowsLeast, kChunksMost); }

template <typename T>
struct BackwardInput {
  const T* in;
  const T* out_gradient;
  const T* shortcut;
  const float* weight;
  RowMoments moments;
  Matrix shape;
  int64_t rows_per_chunk;
  bool centered;  // not an RMS norm
};

// The gradients of weight and bias that one lane has summed; not used where K is 0.
template <int N, int K>
struct ParameterSums {
  float weight[RowWalk<N, K>::kHeld][N] = {};
  float bias[RowWalk<N, K>::kHeld][N] = {};
};

// Two blocks shall fit a multiprocessor, which leaves a thread 128 registers. Beside the sums there
// is room for this many vectors of a row's input and of its gradient. Longer rows are read twice,
// the second time from the cache. A shortcut of bf16 has room, too, and then need not wait for the
// row's sums.
constexpr int kBlocksTogether = 2;
template <typename T>
inline constexpr int kHeldMost = sizeof(T) == 2 ? 3 : 2;

template <typename T, int K>
inline constexpr int kHeld = K <= kHeldMost<T> ? K : 0;
template <typename T, int K>
inline constexpr int kShortcutHeld = sizeof(T) == 2 ? kHeld<T, K> : 0;

// x^ is the normed input, g = gradient x weight. An RMS norm has no mean(g).
// in_gradient = (g - mean(g) - x^ mean(g x^)) / deviation + shortcut.
template <typename T, int N, int K>
__device__ void BackwardRow(const RowWalk<N, K>& walk, const BackwardInput<T>& input, int64_t r,
                            T* in_gradient, ParameterSums<N, K>& sums) {
  const int64_t begin = r * input.shape.columns;
  const float mean = input.moments.mean[r];
  const float inverse_deviation = input.moments.inverse_deviation[r];
  HeldRow<T, N, kHeld<T, K>> in, gradient;
  HeldRow<T, N, kShortcutHeld<T, K>> shortcut;
  in.Read(walk, input.in + begin);
  gradient.Read(walk, input.out_gradient + begin);
  if (input.shortcut != nullptr) shortcut.Read(walk, input.shortcut + begin);
  float sum = 0;
  float product = 0;
  walk.ForEach([&](int k, int column) {
    const auto x = in.At(k, column);
    const auto of_out = gradient.At(k, column);
    const auto weight = Vector<float, N>::Load(input.weight + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float normed = (x.values[i] - mean) * inverse_deviation;
      const float g = of_out.values[i] * weight.values[i];
      sum += g;
      product += g * normed;
      if constexpr (K > 0) {
        sums.weight[k][i] += of_out.values[i] * normed;
        sums.bias[k][i] += of_out.values[i];
      }
    }
  });
  const float inverse = 1.0f / static_cast<float>(input.shape.columns);
  const float mean_of_g = input.centered ? WarpSum(sum) * inverse : 0.0f;
  const float mean_of_product = WarpSum(product) * inverse;
  walk.ForEach([&](int k, int column) {
    auto x = in.At(k, column);
    const auto of_out = gradient.At(k, column);
    const auto weight = Vector<float, N>::Load(input.weight + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float normed = (x.values[i] - mean) * inverse_deviation;
      const float g = of_out.values[i] * weight.values[i];
      x.values[i] = (g - mean_of_g - normed * mean_of_product) * inverse_deviation;
    }
    if (input.shortcut != nullptr) {
      const auto past = shortcut.At(k, column);
#pragma unroll
      for (int i = 0; i < N; ++i) x.values[i] += past.values[i];
    }
    Packed<T, N>::Of(x).StoreWhole(in_gradient + begin + column);
  });
}

// Adds the values of the block's warps, first to last, and writes the sums to `to`. `shared` holds
// the block's warps x columns.
template <int N, int K>
__device__ void SumWarps(const RowWalk<N, K>& walk, const float (&mine)[K][N], float* shared,
                         float* to) {
  __syncthreads();  // all have read the previous contents of `shared`
  walk.ForEach([&](int k, int column) {
#pragma unroll
    for (int i = 0; i < N; ++i) shared[threadIdx.y * walk.columns + column + i] = mine[k][i];
  });
  __syncthreads();
  const int thread = threadIdx.y * kWarpThreads + threadIdx.x;
  for (int column = thread; column < walk.columns; column += kBlockThreads) {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp * walk.columns + column];
    to[column] = sum;
  }
}

// Each block does a chunk of rows and writes the chunk's sums of weight and bias side by side.
// Where K is 0, ParameterKernel writes these sums instead.
template <typename T, int N, int K>
__global__ void __launch_bounds__(kBlockThreads, kBlocksTogether)
    BackwardKernel(BackwardInput<T> input, T* in_gradient, float* chunk_sums) {
  const RowWalk<N, K> walk = {static_cast<int>(input.shape.columns)};
  const int64_t begin = blockIdx.x * input.rows_per_chunk;
  const int64_t end = min(begin + input.rows_per_chunk, input.shape.rows);
  ParameterSums<N, K> sums;
  for (int64_t r = begin + threadIdx.y; r < end; r += kWarps) {
    BackwardRow(walk, input, r, in_gradient, sums);
  }
  if constexpr (K > 0) {
    __shared__ float shared[kWarps * K * N * kWarpThreads];
    float* to = chunk_sums + blockIdx.x * 2 * walk.columns;
    SumWarps<N, K>(walk, sums.weight, shared, to);
    SumWarps<N, K>(walk, sums.bias, shared, to + walk.columns);
  }
}

// The chunks' sums for rows of any width: a thread for each column, a row of blocks for each chunk.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    ParameterKernel(BackwardInput<T> input, float* chunk_sums) {
  const int64_t columns = input.shape.columns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (column >= columns) return;
  const int64_t begin = blockIdx.y * input.rows_per_chunk;
  const int64_t end = min(begin + input.rows_per_chunk, input.shape.rows);
  float weight = 0;
  float bias = 0;
  for (int64_t r = begin; r < end; ++r) {
    const float gradient = ToFloat(input.out_gradient[r * columns + column]);
    const float x = ToFloat(input.in[r * columns + column]);
    weight += gradient * (x - input.moments.mean[r]) * input.moments.inverse_deviation[r];
    bias += gradient;
  }
  chunk_sums[blockIdx.y * 2 * columns + column] = weight;
  chunk_sums[blockIdx.y * 2 * columns + columns + column] = bias;
}

// Launched before BackwardKernel, which may overwrite the gradient that this kernel reads.
template <typename T>
cudaError_t LaunchParameterKernel(cudaStream_t stream, const BackwardInput<T>& input,
                                  int64_t chunks, float* chunk_sums) {
  const dim3 grid(BlocksFor(input.shape.columns, kBlockThreads), static_cast<unsigned>(chunks));
  return Launch(stream, {grid, kBlockThreads}, ParameterKernel<T>, input, chunk_sums);
}

}  // namespace

int64_t LayerNormBackwardWorkspace(Matrix shape) {
  return shape.rows == 0 ? 0 : (ChunksOf(shape).count * 2 + 1) * shape.columns;
}

template <typename T>
cudaError_t LayerNormBackward(cudaStream_t stream, const T* in, const T* out_gradient,
                              const T* shortcut, const float* weight, RowMoments moments,
                              Matrix shape, float* workspace, LayerNormGradients<T> gradients) {
  if (shape.rows == 0) return cudaSuccess;
  const Chunks chunks = ChunksOf(shape);
  const BackwardInput<T> input = {in,
                                  out_gradient,
                                  shortcut,
                                  weight,
                                  moments,
                                  shape,
                                  chunks.rows_per_chunk,
                                  gradients.bias != nullptr};
  const cudaError_t result = WithRowWalk(shape.columns, [&]<int N, int K>() {
    cudaError_t launched = cudaSuccess;
    if (K == 0) launched = LaunchParameterKernel(stream, input, chunks.count, workspace);
    if (launched != cudaSuccess) return launched;
    const Grid grid = {static_cast<unsigned>(chunks.count), dim3(kWarpThreads, kWarps)};
    return Launch(stream, grid, BackwardKernel<T, N, K>, input, gradients.in, workspace);
  });
  if (result != cudaSuccess) return result;
  // An RMS norm has no place for the sums of a bias.
  float* const unused = workspace + chunks.count * 2 * shape.columns;
  return SumChunks(stream, workspace, {chunks.count, 2 * shape.columns},
                   {shape.columns, gradients.weight, input.centered ? gradients.bias : unused});
}
template cudaError_t LayerNormBackward(cudaStream_t, const float*, const float*, const float*,
                                       const float*, RowMoments, Matrix, float*,
                                       LayerNormGradients<float>);
template cudaError_t LayerNormBackward(cudaStream_t, const bf16*, const bf16*, const bf16*,
                                       const float*, RowMoments, Matrix, float*,
                                       LayerNormGradients<bf16>);

}  // namespace dp::engine::cuda
