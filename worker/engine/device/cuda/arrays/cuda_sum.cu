#include "worker/engine/device/cuda/arrays/cuda_sum.h"

#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// The type in which elements of T are added.
template <typename T>
struct AddedAs {
  using Type = T;
};
template <>
struct AddedAs<half> {
  using Type = float;
};
template <>
struct AddedAs<bf16> {
  using Type = float;
};

template <typename To, typename From>
__device__ To ConvertTo(From value) {
  return static_cast<To>(value);
}
template <>
__device__ float ConvertTo(half value) {
  return ToFloat(value);
}
template <>
__device__ float ConvertTo(bf16 value) {
  return ToFloat(value);
}
template <>
__device__ half ConvertTo(float value) {
  return FromFloat<half>(value);
}
template <>
__device__ bf16 ConvertTo(float value) {
  return FromFloat<bf16>(value);
}

DP_HOST_DEVICE constexpr int OnesIn(int number) {
  int ones = 0;
  for (; number != 0; number &= number - 1) ++ones;
  return ones;
}

// A binary tree over the inputs, whose blocks begin at multiples of their size. Inputs are added
// one after another. `open` has the sums of the blocks so far, the largest first, as the bits of a
// number have their ones. All indices are known to the compiler, so sums are registers.
template <typename T>
struct SumOf {
  using Added = typename AddedAs<T>::Type;
  static constexpr int kOpenMax = OnesIn(kSumInputsMax - 1) + 1;

  const T* inputs[kSumInputsMax];
  int count;
  T* sum;

  template <int N>
  __device__ void At(int64_t i) const {
    static_assert(N == 1);
    Added open[kOpenMax] = {};
#pragma unroll
    for (int input = 0; input < kSumInputsMax; ++input) {
      if (input >= count) continue;
      int last = OnesIn(input);
      open[last] = ConvertTo<Added>(inputs[input][i]);
#pragma unroll
      for (int bit = 1; (input & bit) != 0; bit *= 2, --last)
        open[last - 1] = static_cast<Added>(open[last - 1] + open[last]);
    }
#pragma unroll
    for (int last = kOpenMax - 1; last > 0; --last) {
      if (last >= OnesIn(count)) continue;
      open[last - 1] = static_cast<Added>(open[last - 1] + open[last]);
    }
    sum[i] = ConvertTo<T>(open[0]);
  }
};

}  // namespace

template <typename T>
cudaError_t Sum(cudaStream_t stream, const T* const* inputs, int count, int64_t size, T* sum) {
  if (count < 1 || count > kSumInputsMax) return cudaErrorInvalidValue;
  SumOf<T> kernel = {};
  for (int input = 0; input < count; ++input) kernel.inputs[input] = inputs[input];
  kernel.count = count;
  kernel.sum = sum;
  return ForEach<1>(stream, size, kernel);
}

#define DP_INSTANTIATE(T) template cudaError_t Sum(cudaStream_t, const T* const*, int, int64_t, T*);
DP_INSTANTIATE(float)
DP_INSTANTIATE(double)
DP_INSTANTIATE(bf16)
DP_INSTANTIATE(half)
DP_INSTANTIATE(uint8_t)
DP_INSTANTIATE(uint32_t)
DP_INSTANTIATE(uint64_t)
#undef DP_INSTANTIATE

}  // namespace dp::engine::cuda
