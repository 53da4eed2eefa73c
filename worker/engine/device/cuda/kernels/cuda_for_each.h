#pragma once

#include "worker/engine/device/cuda/kernels/cuda_launch.h"
#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Kernels that apply a function to each element. Only .cu files include this header.

namespace dp::engine::cuda {

// One thread calls apply.template At<N>(first) for N neighbours. The thread at the end, where fewer
// than N are left, calls At<1> for each.
template <int N, typename Apply>
__global__ void __launch_bounds__(kBlockThreads) ForEachKernel(int64_t size, Apply apply) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = thread * N;
  if (first + N <= size) {
    apply.template At<N>(first);
    return;
  }
#pragma unroll 1
  for (int64_t i = first; i < size; ++i) apply.template At<1>(i);
}

// `Apply` has a member template <int N> __device__ void At(int64_t first) const.
template <int N, typename Apply>
cudaError_t ForEach(cudaStream_t stream, int64_t size, const Apply& apply) {
  if (size == 0) return cudaSuccess;
  const unsigned blocks = BlocksFor(size, int64_t{kBlockThreads} * N);
  return Launch(stream, {blocks, kBlockThreads}, ForEachKernel<N, Apply>, size, apply);
}

}  // namespace dp::engine::cuda
