#pragma once

#include <cstring>

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// For kernels: loads and stores several neighbouring elements by instructions of up to 16 bytes,
// and computes with them as floats. Only .cu files include this header.

namespace dp::engine::cuda {

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(bf16 value) { return __bfloat162float(value); }
__device__ inline float ToFloat(half value) { return __half2float(value); }
__device__ inline float ToFloat(double value) { return static_cast<float>(value); }

// Rounds to nearest, ties to even.
template <typename T>
__device__ inline T FromFloat(float value);
template <>
__device__ inline float FromFloat<float>(float value) {
  return value;
}
template <>
__device__ inline bf16 FromFloat<bf16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline half FromFloat<half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline double FromFloat<double>(float value) {
  return value;
}

// The type by which one instruction moves this many bytes.
template <int kBytes>
struct Word;
template <>
struct Word<2> {
  using Type = ushort1;
};
template <>
struct Word<4> {
  using Type = uint1;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

// N elements of T, as floats. Their address is a multiple of their size, or of 16 bytes if that is
// less.
template <typename T, int N>
struct Vector {
  float values[N];

  __device__ static Vector Load(const T* from) {
    Vector vector;
#pragma unroll
    for (int i = 0; i < N; i += kPart) {
      const Raw raw = *reinterpret_cast<const Raw*>(from + i);
      T elements[kPart];
      memcpy(static_cast<void*>(elements), &raw, sizeof(raw));
#pragma unroll
      for (int k = 0; k < kPart; ++k) vector.values[i + k] = ToFloat(elements[k]);
    }
    return vector;
  }

  __device__ void Store(T* to) const {
#pragma unroll
    for (int i = 0; i < N; i += kPart) {
      T elements[kPart];
#pragma unroll
      for (int k = 0; k < kPart; ++k) elements[k] = FromFloat<T>(values[i + k]);
      Raw raw;
      memcpy(&raw, elements, sizeof(raw));
      *reinterpret_cast<Raw*>(to + i) = raw;
    }
  }

 private:
  // Elements that one instruction moves.
  static constexpr int kPart = N * sizeof(T) <= 16 ? N : 16 / static_cast<int>(sizeof(T));
  using Raw = typename Word<kPart* static_cast<int>(sizeof(T))>::Type;
};

// The same elements as they lie in memory, so that they occupy no more registers than they must.
template <typename T, int N>
struct Packed {
  static constexpr int kBytes = N * static_cast<int>(sizeof(T));
  using Raw = typename Word<(kBytes <= 16 ? kBytes : 16)>::Type;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Raw));

  Raw words[kWords];

  __device__ static Packed Load(const T* from) {
    Packed packed;
#pragma unroll
    for (int i = 0; i < kWords; ++i) packed.words[i] = reinterpret_cast<const Raw*>(from)[i];
    return packed;
  }

  // Rounds.
  __device__ static Packed Of(const Vector<T, N>& vector) {
    T elements[N];
#pragma unroll
    for (int i = 0; i < N; ++i) elements[i] = FromFloat<T>(vector.values[i]);
    Packed packed;
    memcpy(packed.words, elements, sizeof(elements));
    return packed;
  }

  __device__ void Store(T* to) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) reinterpret_cast<Raw*>(to)[i] = words[i];
  }

  // To device memory, word by word; the compiler would split the words of a plain store.
  __device__ void StoreWhole(T* to) const {
    if constexpr (sizeof(Raw) == 16) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) __stwb(reinterpret_cast<uint4*>(to) + i, words[i]);
    } else {
      Store(to);
    }
  }

  __device__ Vector<T, N> Unpacked() const {
    T elements[N];
    memcpy(static_cast<void*>(elements), words, sizeof(words));
    Vector<T, N> vector;
#pragma unroll
    for (int i = 0; i < N; ++i) vector.values[i] = ToFloat(elements[i]);
    return vector;
  }
};

// Elements of T that one instruction moves.
template <typename T>
inline constexpr int kWidth = 16 / static_cast<int>(sizeof(T));

}  // namespace dp::engine::cuda
