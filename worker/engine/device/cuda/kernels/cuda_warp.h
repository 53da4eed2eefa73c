#pragma once

#include "worker/engine/device/cuda/kernels/cuda_launch.h"

// Sums and maxima over the threads of a warp, in one order. Only .cu files include it.

namespace dp::engine::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffff;

// All lanes get the sum with the same bits, because partners add the same two numbers.
__device__ inline float WarpSum(float value) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

// Ignores NaNs.
__device__ inline float WarpMax(float value) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  return value;
}

}  // namespace dp::engine::cuda
