#include "worker/engine/device/cuda/attention/cuda_attention.h"

#include <cfloat>

#include "worker/engine/device/cuda/attention/cuda_attention_tile.h"

namespace dp::engine::cuda {
namespace {

// The softmax of a warp's rows as keys pass by. A row's sum adds exponentials of scores less the
// largest so far; a larger score scales it down. See Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018.
template <int kSlots>
struct OnlineSoftmax {
  RowSums<kSlots> mixed;
  float largest[kRowsOfWarp];
  float sum[kRowsOfWarp] = {};

  __device__ OnlineSoftmax() {
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) largest[r] = -FLT_MAX;
  }

  // `scores` has our rows' with this lane's key; minus infinity where the key does not count.
  __device__ void Add(float (&scores)[kRowsOfWarp], const Tile& values) {
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const float both = fmaxf(largest[r], WarpMax(scores[r]));
      const float shrink = expf(largest[r] - both);
      scores[r] = expf(scores[r] - both);
      sum[r] = sum[r] * shrink + WarpSum(scores[r]);
      largest[r] = both;
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) mixed.values[r][slot] *= shrink;
    }
    mixed.Add(scores, values);
  }
};

// Block (h, t): the queries of tile t of head h.
template <int kSlots>
__global__ void __launch_bounds__(kTileThreads)
    ForwardKernel(AttentionShape shape, const float* in, float scale, float* log_sums, float* out) {
  float* shared = DynamicShared();
  const Head head = {shape, blockIdx.x};
  const int features = static_cast<int>(shape.head_features);
  const Tile queries = {shared, features};
  const Tile keys = {shared + Tile::Size(features), features};
  const Tile values = {shared + 2 * Tile::Size(features), features};
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * kTileRows;
  const int first = threadIdx.y * kRowsOfWarp;
  queries.Load(head.Part(in, 0), begin, shape.tokens);
  OnlineSoftmax<kSlots> softmax;
  for (int64_t at = 0; at < shape.SeenEnd(begin); at += kTileRows) {
    __syncthreads();  // all have read the previous tiles
    keys.Load(head.Part(in, 1), at, shape.tokens);
    values.Load(head.Part(in, 2), at, shape.tokens);
    __syncthreads();
    float scores[kRowsOfWarp];
    Multiply(queries, first, keys, scores);
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const int64_t key = at + threadIdx.x;
      const bool counts = shape.causal ? key <= begin + first + r : key < shape.tokens;
      scores[r] = counts ? scores[r] * scale : -INFINITY;
    }
    softmax.Add(scores, values);
  }
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const int64_t row = begin + first + r;
    if (row >= shape.tokens) break;
    softmax.mixed.Store(r, 1.0f / softmax.sum[r], head.Rows(out), row, features);
    if (threadIdx.x == 0) {
      log_sums[head.index * shape.tokens + row] = softmax.largest[r] + logf(softmax.sum[r]);
    }
  }
}

}  // namespace

cudaError_t AttentionForward(cudaStream_t stream, const float* in, AttentionShape shape,
                             float* log_sums, float* out) {
  const float scale = 1 / sqrtf(static_cast<float>(shape.head_features));
  return WithSlots(shape, [&]<int kSlots>() {
    return LaunchTiles(stream, shape, 3, ForwardKernel<kSlots>, in, scale, log_sums, out);
  });
}

}  // namespace dp::engine::cuda
