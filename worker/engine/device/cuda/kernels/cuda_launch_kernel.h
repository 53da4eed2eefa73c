#pragma once

#include <cuda_runtime.h>

// How kernels are launched, and what they do otherwise on a device than on the host; only .cu files
// include this header. Tests that run kernels without a device define DP_CUDA_ON_HOST.

namespace dp::engine::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads;          // of a block
  int shared_bytes = 0;  // of DynamicShared()
};

}  // namespace dp::engine::cuda

#ifdef DP_CUDA_ON_HOST
#include "worker/engine/device/cuda/on_host/cuda_on_host.h"

namespace dp::engine::cuda {

using on_host::DynamicShared;
using on_host::Exp2Flushed;

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(cudaStream_t, const Grid& grid, void (*kernel)(Parameters...),
                   const Arguments&... arguments) {
  on_host::Run(grid.blocks, grid.threads, grid.shared_bytes, [&] { kernel(arguments...); });
  return cudaSuccess;
}

}  // namespace dp::engine::cuda

#else

namespace dp::engine::cuda {

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(cudaStream_t stream, const Grid& grid, void (*kernel)(Parameters...),
                   const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// The block's dynamic shared memory, whose size the launch sets; aligned to 16 bytes.
__device__ inline float* DynamicShared() {
  extern __shared__ __align__(16) float dynamic_shared[];
  return dynamic_shared;
}

// 2 to the power of x by one instruction, with an error of two units in the last place. Results
// below float's normal numbers are 0; keeping them would take three more instructions.
__device__ inline float Exp2Flushed(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace dp::engine::cuda

#endif
