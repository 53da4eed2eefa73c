#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

// Runs kernels on the host, for tests where there is no device: a .cu file is compiled as C++ with
// DP_CUDA_ON_HOST. Blocks run one after another. A block's threads are fibers, of which one runs
// until it waits for the others. Tests cover places in memory, sums, barriers and shuffles, under
// the sanitizers too. They do not cover time, caches and threads that really run at once. Slow.
// Threads of the host may launch at any time; one kernel runs after the other, with the whole
// device.

#undef __shared__
#define __shared__ static  // of the one block that runs
#undef __global__
#define __global__
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace dp::engine::cuda::on_host {

// The indices and sizes of the thread that runs.
extern dim3 thread_index, block_index, block_size, grid_size;

// Runs `thread` as every thread of a grid of `blocks`, with `threads_each` and `shared_bytes` for
// each block. Aborts with a message if threads of a block wait at different places, or if a lane is
// missing from an operation of its warp.
void Run(dim3 blocks, dim3 threads_each, int shared_bytes, const std::function<void()>& thread);

float* DynamicShared();

// The device's instruction is within two units in the last place, and gives 0 for results below
// float's normal numbers.
inline float Exp2Flushed(float x) { return std::exp2(x); }

// Wait until all threads of the block, or of the warp, are here.
void AwaitBlock();
void AwaitWarp();

// Where each lane of the running thread's warp, or each thread of its block, shows values to the
// others.
uint64_t* WarpSlots();
int* BlockSlots();
int Lane();
int Thread();
int Threads();

template <typename T>
T Exchange(T value, int from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  std::memcpy(&WarpSlots()[Lane()], &value, sizeof(T));
  AwaitWarp();
  T other;
  std::memcpy(&other, &WarpSlots()[from], sizeof(T));
  AwaitWarp();
  return other;
}

}  // namespace dp::engine::cuda::on_host

// CUDA's own names.

#define threadIdx (::dp::engine::cuda::on_host::thread_index)
#define blockIdx (::dp::engine::cuda::on_host::block_index)
#define blockDim (::dp::engine::cuda::on_host::block_size)
#define gridDim (::dp::engine::cuda::on_host::grid_size)

inline void __syncthreads() { dp::engine::cuda::on_host::AwaitBlock(); }
inline void __syncwarp() { dp::engine::cuda::on_host::AwaitWarp(); }

inline int __syncthreads_or(int mine) {
  using namespace dp::engine::cuda::on_host;  // NOLINT: limited to this function
  BlockSlots()[Thread()] = mine;
  AwaitBlock();
  const int any = std::any_of(BlockSlots(), BlockSlots() + Threads(), [](int i) { return i != 0; });
  AwaitBlock();
  return any;
}

template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return dp::engine::cuda::on_host::Exchange(value, lane);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  using dp::engine::cuda::on_host::Exchange;
  return Exchange(value, dp::engine::cuda::on_host::Lane() ^ distance);
}
inline int __any_sync(unsigned lanes, int mine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    mine |= __shfl_xor_sync(lanes, mine, distance);
  }
  return mine;
}

inline void __stwb(uint4* to, uint4 value) { *to = value; }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
using std::max;
using std::min;
