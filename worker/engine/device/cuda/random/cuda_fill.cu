#include "worker/engine/device/cuda/random/cuda_fill.h"

#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"
#include "worker/engine/device/cuda/random/cuda_random.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
struct FillNormalOf {
  uint64_t seed;
  T* out;

  template <int N>
  __device__ void At(int64_t first) const {
    Vector<T, N> filled;
#pragma unroll
    for (int i = 0; i < N; ++i) filled.values[i] = NormalAt(seed, first + i);
    filled.Store(out + first);
  }
};

}  // namespace

template <typename T>
cudaError_t FillNormal(cudaStream_t stream, uint64_t seed, int64_t size, T* out) {
  return ForEach<kWidth<T>>(stream, size, FillNormalOf<T>{seed, out});
}

template cudaError_t FillNormal(cudaStream_t, uint64_t, int64_t, float*);
template cudaError_t FillNormal(cudaStream_t, uint64_t, int64_t, bf16*);

}  // namespace dp::engine::cuda
