#pragma once

#include "worker/engine/device/cuda/attention/cuda_attention.h"
#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_warp.h"

// The parts that the attention kernels are made of. A tile is 32 rows (queries, keys or values of
// one head) in shared memory, one row for each lane. A block has 8 warps. Each warp computes 4 rows
// of the block's own tile against the 32 rows of the tile that passes by. Only .cu files include
// this header.

namespace dp::engine::cuda {

inline constexpr int kTileRows = kWarpThreads;
inline constexpr int kRowsOfWarp = 4;
inline constexpr int kTileWarps = kTileRows / kRowsOfWarp;
inline constexpr int kTileThreads = kTileWarps * kWarpThreads;

// Rows of one head in device memory, `stride` floats apart.
template <typename Float>
struct HeadRows {
  Float* first;
  int64_t stride;
};

// One head of one sample.
struct Head {
  AttentionShape shape;
  int64_t index;  // sample x heads + head

  __device__ int64_t sample() const { return index / shape.heads; }
  __device__ int64_t offset() const { return index % shape.heads * shape.head_features; }

  // Part 0 (queries), 1 (keys) or 2 (values) of an array of samples x tokens x 3 features.
  template <typename Float>
  __device__ HeadRows<Float> Part(Float* in, int part) const {
    const int64_t stride = 3 * shape.features();
    return {in + sample() * shape.tokens * stride + part * shape.features() + offset(), stride};
  }
  // The rows of an array of samples x tokens x features.
  template <typename Float>
  __device__ HeadRows<Float> Rows(Float* out) const {
    return {out + sample() * shape.tokens * shape.features() + offset(), shape.features()};
  }
};

// A row is one float longer than a head's features, so that a column lies in different banks.
struct Tile {
  float* memory;
  int features;

  __host__ __device__ static int Size(int features) { return kTileRows * (features + 1); }

  __device__ float* row(int r) const { return memory + r * (features + 1); }

  // All threads of the block load rows from `begin` on, and zeroes from `end` on.
  __device__ void Load(HeadRows<const float> from, int64_t begin, int64_t end) const {
    const int thread = threadIdx.y * kWarpThreads + threadIdx.x;
    for (int i = thread; i < kTileRows * features; i += kTileThreads) {
      const int r = i / features;
      const int feature = i % features;
      row(r)[feature] = begin + r < end ? from.first[(begin + r) * from.stride + feature] : 0.0f;
    }
  }
};

// products[r] = the dot product of row `first` + r of `mine` and this lane's row of `passing`.
__device__ inline void Multiply(const Tile& mine, int first, const Tile& passing,
                                float (&products)[kRowsOfWarp]) {
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) products[r] = 0;
  const float* of_lane = passing.row(threadIdx.x);
  for (int feature = 0; feature < mine.features; ++feature) {
    const float value = of_lane[feature];
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      products[r] = fmaf(mine.row(first + r)[feature], value, products[r]);
    }
  }
}

// Weighted sums of a tile's rows, for each of a warp's rows. Lane l has the features l, l + 32,
// ...; kSlots of them cover all features.
template <int kSlots>
struct RowSums {
  float values[kRowsOfWarp][kSlots] = {};

  // Adds the rows of `passing`. Lane l has the weights of row l for each of our rows.
  __device__ void Add(const float (&weights)[kRowsOfWarp], const Tile& passing) {
    for (int lane = 0; lane < kTileRows; ++lane) {
      float weight[kRowsOfWarp];
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r) {
        weight[r] = __shfl_sync(kWholeWarp, weights[r], lane);
      }
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) {
        const int feature = slot * kWarpThreads + threadIdx.x;
        const float value = feature < passing.features ? passing.row(lane)[feature] : 0.0f;
#pragma unroll
        for (int r = 0; r < kRowsOfWarp; ++r) {
          values[r][slot] = fmaf(weight[r], value, values[r][slot]);
        }
      }
    }
  }

  // Writes our sum r, times `scale`, as row `to_row` of `to`.
  __device__ void Store(int r, float scale, HeadRows<float> to, int64_t to_row,
                        int features) const {
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const int feature = slot * kWarpThreads + threadIdx.x;
      if (feature < features) to.first[to_row * to.stride + feature] = values[r][slot] * scale;
    }
  }
};

// Calls launch.template operator()<kSlots>() with the kSlots that a head's features need.
template <typename Launch>
cudaError_t WithSlots(AttentionShape shape, const Launch& launch) {
  if (shape.head_features <= kWarpThreads) return launch.template operator()<1>();
  if (shape.head_features <= 2 * kWarpThreads) return launch.template operator()<2>();
  if (shape.head_features <= kAttentionHeadMax) return launch.template operator()<4>();
  return cudaErrorInvalidValue;
}

// Launches a kernel with a block for each tile of each head, and shared memory for `tiles` tiles.
template <typename Kernel, typename... Arguments>
cudaError_t LaunchTiles(cudaStream_t stream, AttentionShape shape, int tiles, Kernel* kernel,
                        const Arguments&... arguments) {
  if (shape.rows() == 0) return cudaSuccess;
  const int bytes =
      tiles * Tile::Size(static_cast<int>(shape.head_features)) * static_cast<int>(sizeof(float));
  const cudaError_t result = cudaFuncSetAttribute(
      reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (result != cudaSuccess) return result;
  const dim3 grid(static_cast<unsigned>(shape.samples * shape.heads),
                  BlocksFor(shape.tokens, kTileRows));
  return Launch(stream, {grid, dim3(kWarpThreads, kTileWarps), bytes}, kernel, shape, arguments...);
}

}  // namespace dp::engine::cuda
