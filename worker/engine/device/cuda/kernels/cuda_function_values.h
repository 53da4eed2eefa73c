#pragma once

#include "worker/engine/device/cuda/kernels/cuda_exponential.h"
#include "worker/engine/device/cuda/kernels/cuda_function.h"

// The functions of each value, in float. Value<T>(x) is the function as exact as T can show.
// Gradient<T>(saved, gradient) is `gradient` times the derivative; SavesOutput says whether `saved`
// is the function's output or its input. Only .cu files include this header.

namespace dp::engine::cuda {

template <Function kFunction>
struct FunctionValues;

template <>
struct FunctionValues<Function::kRelu> {
  // A NaN stays NaN, so that a failed training shows.
  template <typename T>
  __device__ static float Value(float x) {
    return x < 0.0f ? 0.0f : x;
  }
  template <typename T>
  __device__ static float Gradient(float out, float gradient) {
    return out > 0.0f ? gradient : 0.0f;
  }
};

// torch.nn.GELU(approximate="tanh"), as model::Gelu is.
// gelu(x) = x (1 + tanh(u / 2)) / 2 = x sigmoid(u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3).
template <>
struct FunctionValues<Function::kGelu> {
  static constexpr float kRoot = 2 * 0.797884560802865f;
  static constexpr float kCubic = 0.044715f;

  template <typename T>
  __device__ static float Value(float x) {
    return x * Sigmoid<T>(kRoot * (x + kCubic * x * x * x));
  }
  // gelu'(x) = s + x s (1 - s) u', s = sigmoid(u).
  template <typename T>
  __device__ static float Gradient(float x, float gradient) {
    const float s = Sigmoid<T>(kRoot * (x + kCubic * x * x * x));
    const float slope_of_u = kRoot * (1.0f + 3.0f * kCubic * x * x);
    return gradient * (s + x * s * (1.0f - s) * slope_of_u);
  }
};

// x Φ(x), with the normal distribution Φ(x) = erfc(-x / sqrt(2)) / 2, which keeps its digits where
// x is far below 0.
template <>
struct FunctionValues<Function::kExactGelu> {
  static constexpr float kRootOfHalf = 0.707106781186548f;
  static constexpr float kDensityAt0 = 0.398942280401433f;  // 1 / sqrt(2 pi)

  template <typename T>
  __device__ static float Value(float x) {
    return 0.5f * x * erfcf(-kRootOfHalf * x);
  }
  // Φ(x) + x times the density of the normal distribution.
  template <typename T>
  __device__ static float Gradient(float x, float gradient) {
    const float density = kDensityAt0 * Exp<T>(-0.5f * x * x);
    return gradient * (0.5f * erfcf(-kRootOfHalf * x) + x * density);
  }
};

// x sigmoid(x).
template <>
struct FunctionValues<Function::kSilu> {
  template <typename T>
  __device__ static float Value(float x) {
    return x * Sigmoid<T>(x);
  }
  template <typename T>
  __device__ static float Gradient(float x, float gradient) {
    const float s = Sigmoid<T>(x);
    return gradient * (s + x * s * (1.0f - s));
  }
};

template <>
struct FunctionValues<Function::kTanh> {
  template <typename T>
  __device__ static float Value(float x) {
    return tanhf(x);
  }
  template <typename T>
  __device__ static float Gradient(float out, float gradient) {
    return gradient * (1.0f - out * out);
  }
};

template <>
struct FunctionValues<Function::kSigmoid> {
  template <typename T>
  __device__ static float Value(float x) {
    return Sigmoid<T>(x);
  }
  template <typename T>
  __device__ static float Gradient(float out, float gradient) {
    return gradient * out * (1.0f - out);
  }
};

}  // namespace dp::engine::cuda
