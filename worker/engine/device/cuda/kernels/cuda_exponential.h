#pragma once

#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Functions as exact as results in T can show. For bf16 they use the fast instructions, whose error
// bf16's rounding hides. Only .cu files include this header.

namespace dp::engine::cuda {

template <typename T>
__device__ inline float Exp(float x);
template <>
__device__ inline float Exp<float>(float x) {
  return expf(x);
}
template <>
__device__ inline float Exp<bf16>(float x) {
  constexpr float kLog2OfE = 1.44269504f;
  return Exp2Flushed(x * kLog2OfE);
}

// 1 / (1 + exp(-x)). It equals (1 + tanh(x / 2)) / 2, but keeps the digits of small results.
template <typename T>
__device__ inline float Sigmoid(float x);
template <>
__device__ inline float Sigmoid<float>(float x) {
  return 1.0f / (1.0f + expf(-x));
}
template <>
__device__ inline float Sigmoid<bf16>(float x) {
  return __fdividef(1.0f, 1.0f + __expf(-x));
}

}  // namespace dp::engine::cuda
