#pragma once

#include "worker/engine/device/cuda/kernels/cuda_launch.h"
#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"

// Sums over the threads of a block, in one order. Only .cu files include it.

namespace dp::engine::cuda {

// All kBlockThreads threads of the block call it together, and get the sum. May be called again.
__device__ inline double BlockSum(double value) {
  __shared__ double partial[kBlockThreads];
  const int thread = static_cast<int>(threadIdx.x);
  partial[thread] = value;
  __syncthreads();
  for (int distance = kBlockThreads / 2; distance > 0; distance /= 2) {
    if (thread < distance) partial[thread] += partial[thread + distance];
    __syncthreads();
  }
  const double sum = partial[0];
  __syncthreads();
  return sum;
}

}  // namespace dp::engine::cuda
