#pragma once

#include "worker/engine/device/cuda/kernels/cuda_column_chunks.h"
#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"

// How a block goes over rows of channels: threads across x down, each with N neighbouring channels
// of every `down`-th row. Values of a channel stay in the thread's registers. Only .cu files
// include this header.

namespace dp::engine::cuda {

template <int N>
struct ChannelWalk {
  int64_t channels;
  int64_t channel;  // the thread's first
  int64_t begin;    // the block's rows
  int64_t end;

  // Block (x, y) has rows x of `rows_per_block`, and tile y of the channels.
  __device__ ChannelWalk(int64_t channels, int64_t rows, int64_t rows_per_block)
      : channels(channels),
        channel((static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N),
        begin(min(blockIdx.x * rows_per_block, rows)),
        end(min(begin + rows_per_block, rows)) {}

  // Whether the thread has channels.
  __device__ bool on() const { return channel < channels; }

  // Calls use(at, load(at)) for each of the thread's rows before `last`, first to last. `at` is the
  // place of the row's first channel. kAhead rows are loaded before the first of them is used, as a
  // load behind a store would wait for it.
  template <int kAhead, typename Load, typename Use>
  __device__ void ForRows(int64_t last, Load load, Use use) const {
    if (!on()) return;
    const int64_t step = blockDim.y;
    for (int64_t row = begin + threadIdx.y; row < last; row += kAhead * step) {
      decltype(load(row)) parts[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int64_t at = row + i * step;
        if (at < last) parts[i] = load(at * channels + channel);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int64_t at = row + i * step;
        if (at < last) use(at * channels + channel, parts[i]);
      }
    }
  }

  // How many of `count` rows from `begin` on the threads of row `y` have.
  __device__ static int64_t RowsOf(int y, int64_t count) {
    return count <= y ? 0 : (count - y + blockDim.y - 1) / blockDim.y;
  }
};

// The launch of a walk whose blocks have `rows_per_block` rows each.
template <int N>
Grid WalkGrid(int64_t channels, int64_t rows, int64_t rows_per_block) {
  const int across = ColumnThreads(channels, N);
  return {dim3(BlocksFor(rows, rows_per_block), BlocksFor(channels, int64_t{across} * N)),
          dim3(across, kBlockThreads / across)};
}

// Calls launch.template operator()<N>() with the vectors that rows of `channels` allow.
template <typename T, typename Launch>
cudaError_t WithWalk(int64_t channels, const Launch& launch) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  return channels % kWide == 0 ? launch.template operator()<kWide>()
                               : launch.template operator()<1>();
}

}  // namespace dp::engine::cuda
