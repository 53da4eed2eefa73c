#include "worker/engine/device/cuda/attention/cuda_attention.h"
#include "worker/engine/device/cuda/attention/cuda_attention_tile.h"

namespace dp::engine::cuda {
namespace {

// The input of the gradients. The probabilities p are computed again from scores and log_sums. With
// dp = out_gradient valuesᵀ, the gradient of the scores is p (dp - product). The product of a row
// is out x out_gradient, which is also the sum of p dp.
struct Input {
  const float* in;
  const float* log_sums;
  const float* products;
  const float* out_gradient;
  float scale;
};

// Computes products[row] of each head. A warp does a row at a time.
__global__ void __launch_bounds__(kTileThreads)
    ProductKernel(AttentionShape shape, const float* out, const float* out_gradient,
                  float* products) {
  const Head head = {shape, blockIdx.x};
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * kTileRows;
  for (int i = threadIdx.y; i < kTileRows; i += kTileWarps) {
    const int64_t row = begin + i;
    if (row >= shape.tokens) return;
    const auto values = head.Rows(out);
    const auto gradients = head.Rows(out_gradient);
    float product = 0;
    for (int64_t feature = threadIdx.x; feature < shape.head_features; feature += kWarpThreads) {
      product += values.first[row * values.stride + feature] *
                 gradients.first[row * gradients.stride + feature];
    }
    product = WarpSum(product);
    if (threadIdx.x == 0) products[head.index * shape.tokens + row] = product;
  }
}

// Block (h, t): the gradient of the queries of tile t of head h. Keys and values pass by.
template <int kSlots>
__global__ void __launch_bounds__(kTileThreads)
    QueryKernel(AttentionShape shape, Input input, float* in_gradient) {
  float* shared = DynamicShared();
  const Head head = {shape, blockIdx.x};
  const int features = static_cast<int>(shape.head_features);
  const Tile queries = {shared, features};
  const Tile gradients = {shared + Tile::Size(features), features};
  const Tile keys = {shared + 2 * Tile::Size(features), features};
  const Tile values = {shared + 3 * Tile::Size(features), features};
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * kTileRows;
  const int first = threadIdx.y * kRowsOfWarp;
  queries.Load(head.Part(input.in, 0), begin, shape.tokens);
  gradients.Load(head.Rows(input.out_gradient), begin, shape.tokens);
  RowSums<kSlots> sums;
  for (int64_t at = 0; at < shape.SeenEnd(begin); at += kTileRows) {
    __syncthreads();  // all have read the previous tiles
    keys.Load(head.Part(input.in, 1), at, shape.tokens);
    values.Load(head.Part(input.in, 2), at, shape.tokens);
    __syncthreads();
    float scores[kRowsOfWarp], slopes[kRowsOfWarp];
    Multiply(queries, first, keys, scores);
    Multiply(gradients, first, values, slopes);
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const int64_t row = begin + first + r;
      const int64_t key = at + threadIdx.x;
      const bool counts = row < shape.tokens && (shape.causal ? key <= row : key < shape.tokens);
      const int64_t of_row = head.index * shape.tokens + (counts ? row : 0);
      const float p = expf(scores[r] * input.scale - input.log_sums[of_row]);
      slopes[r] = counts ? p * (slopes[r] - input.products[of_row]) : 0.0f;
    }
    sums.Add(slopes, keys);
  }
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const int64_t row = begin + first + r;
    if (row >= shape.tokens) break;
    sums.Store(r, input.scale, head.Part(in_gradient, 0), row, features);
  }
}

// Block (h, t): the gradients of keys and values of tile t of head h. Queries and their gradients
// pass by; with a causal mask from the tile's own on.
template <int kSlots>
__global__ void __launch_bounds__(kTileThreads)
    KeyValueKernel(AttentionShape shape, Input input, float* in_gradient) {
  float* shared = DynamicShared();
  const Head head = {shape, blockIdx.x};
  const int features = static_cast<int>(shape.head_features);
  const Tile keys = {shared, features};
  const Tile values = {shared + Tile::Size(features), features};
  const Tile queries = {shared + 2 * Tile::Size(features), features};
  const Tile gradients = {shared + 3 * Tile::Size(features), features};
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * kTileRows;
  const int first = threadIdx.y * kRowsOfWarp;
  keys.Load(head.Part(input.in, 1), begin, shape.tokens);
  values.Load(head.Part(input.in, 2), begin, shape.tokens);
  RowSums<kSlots> key_sums, value_sums;
  for (int64_t at = shape.causal ? begin : 0; at < shape.tokens; at += kTileRows) {
    __syncthreads();  // all have read the previous tiles
    queries.Load(head.Part(input.in, 0), at, shape.tokens);
    gradients.Load(head.Rows(input.out_gradient), at, shape.tokens);
    __syncthreads();
    float scores[kRowsOfWarp], slopes[kRowsOfWarp];
    Multiply(keys, first, queries, scores);
    Multiply(values, first, gradients, slopes);
    const int64_t query = at + threadIdx.x;
    const int64_t of_query = head.index * shape.tokens + (query < shape.tokens ? query : 0);
    const float log_sum = input.log_sums[of_query];
    const float product = input.products[of_query];
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const bool counts = query < shape.tokens && (!shape.causal || begin + first + r <= query);
      scores[r] = counts ? expf(scores[r] * input.scale - log_sum) : 0.0f;
      slopes[r] = scores[r] * (slopes[r] - product);
    }
    value_sums.Add(scores, gradients);
    key_sums.Add(slopes, queries);
  }
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const int64_t row = begin + first + r;
    if (row >= shape.tokens) break;
    key_sums.Store(r, input.scale, head.Part(in_gradient, 1), row, features);
    value_sums.Store(r, 1.0f, head.Part(in_gradient, 2), row, features);
  }
}

}  // namespace

int64_t AttentionBackwardWorkspace(AttentionShape shape) { return shape.rows(); }

cudaError_t AttentionBackward(cudaStream_t stream, const float* in, const float* out,
                              const float* log_sums, const float* out_gradient,
                              AttentionShape shape, float* workspace, float* in_gradient) {
  const float scale = 1 / sqrtf(static_cast<float>(shape.head_features));
  const Input input = {in, log_sums, workspace, out_gradient, scale};
  return WithSlots(shape, [&]<int kSlots>() {
    cudaError_t result = LaunchTiles(stream, shape, 0, ProductKernel, out, out_gradient, workspace);
    if (result != cudaSuccess) return result;
    result = LaunchTiles(stream, shape, 4, QueryKernel<kSlots>, input, in_gradient);
    if (result != cudaSuccess) return result;
    return LaunchTiles(stream, shape, 4, KeyValueKernel<kSlots>, input, in_gradient);
  });
}

}  // namespace dp::engine::cuda
