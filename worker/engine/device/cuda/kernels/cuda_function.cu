#include "worker/engine/device/cuda/kernels/cuda_function.h"

#include "worker/engine/device/cuda/kernels/cuda_elementwise.h"
#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_function_values.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

template <typename T, Function kFunction>
struct ForwardOf {
  const T* in;
  T* out;

  template <int N>
  __device__ void At(int64_t first) const {
    auto value = Vector<T, N>::Load(in + first);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      value.values[i] = FunctionValues<kFunction>::template Value<T>(value.values[i]);
    }
    value.Store(out + first);
  }
};

template <typename T, Function kFunction>
struct BackwardOf {
  const T* saved;
  const T* out_gradient;
  T* in_gradient;

  template <int N>
  __device__ void At(int64_t first) const {
    const auto value = Vector<T, N>::Load(saved + first);
    auto gradient = Vector<T, N>::Load(out_gradient + first);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      gradient.values[i] =
          FunctionValues<kFunction>::template Gradient<T>(value.values[i], gradient.values[i]);
    }
    gradient.Store(in_gradient + first);
  }
};

// Calls launch.template operator()<kFunction>().
template <typename Launch>
cudaError_t WithFunction(Function function, const Launch& launch) {
  switch (function) {
    case Function::kRelu:
      return launch.template operator()<Function::kRelu>();
    case Function::kGelu:
      return launch.template operator()<Function::kGelu>();
    case Function::kExactGelu:
      return launch.template operator()<Function::kExactGelu>();
    case Function::kSilu:
      return launch.template operator()<Function::kSilu>();
    case Function::kTanh:
      return launch.template operator()<Function::kTanh>();
    case Function::kSigmoid:
      return launch.template operator()<Function::kSigmoid>();
    case Function::kNone:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace

template <typename T>
cudaError_t FunctionForward(cudaStream_t stream, Function function, const T* in, int64_t size,
                            T* out) {
  return WithFunction(function, [&]<Function kFunction>() {
    return ForEach<kWidth<T>>(stream, size, ForwardOf<T, kFunction>{in, out});
  });
}
template cudaError_t FunctionForward(cudaStream_t, Function, const float*, int64_t, float*);
template cudaError_t FunctionForward(cudaStream_t, Function, const bf16*, int64_t, bf16*);

template <typename T>
cudaError_t FunctionBackward(cudaStream_t stream, Function function, const T* saved,
                             const T* out_gradient, int64_t size, T* in_gradient) {
  return WithFunction(function, [&]<Function kFunction>() {
    return ForEach<kWidth<T>>(stream, size,
                              BackwardOf<T, kFunction>{saved, out_gradient, in_gradient});
  });
}
template cudaError_t FunctionBackward(cudaStream_t, Function, const float*, const float*, int64_t,
                                      float*);
template cudaError_t FunctionBackward(cudaStream_t, Function, const bf16*, const bf16*, int64_t,
                                      bf16*);

}  // namespace dp::engine::cuda
