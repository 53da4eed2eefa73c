#include "worker/engine/device/cuda/kernels/cuda_cast.h"

#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

template <typename From, typename To>
struct CastOf {
  const From* in;
  To* out;

  template <int N>
  __device__ void At(int64_t first) const {
    const auto value = Vector<From, N>::Load(in + first);
    Vector<To, N> rounded;
#pragma unroll
    for (int i = 0; i < N; ++i) rounded.values[i] = value.values[i];
    rounded.Store(out + first);
  }
};

template <>
struct CastOf<float, int32_t> {
  const float* in;
  int32_t* out;

  template <int N>
  __device__ void At(int64_t first) const {
#pragma unroll
    for (int i = 0; i < N; ++i) out[first + i] = static_cast<int32_t>(in[first + i]);
  }
};

}  // namespace

// Four elements a thread: 16 bytes of a float.
template <typename From, typename To>
cudaError_t Cast(cudaStream_t stream, const From* in, int64_t size, To* out) {
  return ForEach<4>(stream, size, CastOf<From, To>{in, out});
}

#define DP_INSTANTIATE(T)                                             \
  template cudaError_t Cast(cudaStream_t, const T*, int64_t, float*); \
  template cudaError_t Cast(cudaStream_t, const T*, int64_t, bf16*);  \
  template cudaError_t Cast(cudaStream_t, const T*, int64_t, half*);  \
  template cudaError_t Cast(cudaStream_t, const T*, int64_t, double*);
DP_INSTANTIATE(float)
DP_INSTANTIATE(bf16)
DP_INSTANTIATE(half)
DP_INSTANTIATE(double)
#undef DP_INSTANTIATE
template cudaError_t Cast(cudaStream_t, const float*, int64_t, int32_t*);

}  // namespace dp::engine::cuda
