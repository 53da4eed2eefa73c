#pragma once

#include "worker/engine/device/cuda/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/cuda_types.h"

// Functions as exact as results in T can show: in bf16, whose rounding hides their error, by the
// fast instructions. Only .cu files include it.

namespace dp::engine::cuda {

template <typename T>
__device__ inline float Exp(float x);
template <>
__device__ inline float Exp<float>(float x) {
  return expf(x);
}
template <>
__device__ inline float Exp<bf16>(float x) {
  return __expf(x);
}

// 1 / (1 + exp(-x)), which is (1 + tanh(x / 2)) / 2 without the loss of digits where that is small.
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
