#include "worker/engine/device/cuda/arrays/cuda_finite.h"

#include <cfloat>

#include "worker/engine/device/cuda/kernels/cuda_for_each.h"

namespace dp::engine::cuda {
namespace {

// Threads that find something all write the same number.
struct NotFiniteOf {
  const float* in;
  int32_t* found;

  template <int N>
  __device__ void At(int64_t first) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (!(fabsf(in[first + i]) <= FLT_MAX)) *found = 1;  // true for a NaN, too
    }
  }
};

}  // namespace

// One element a thread, so an array may begin anywhere. Memory bounds the kernel anyway.
cudaError_t FindNotFinite(cudaStream_t stream, const float* in, int64_t size, int32_t* found) {
  return ForEach<1>(stream, size, NotFiniteOf{in, found});
}

}  // namespace dp::engine::cuda
