#include "worker/engine/device/cuda/kernels/cuda_embedding.h"

#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

template <typename W, typename T>
struct EmbeddingOf {
  const int32_t* tokens;
  const W* weight;
  const W* positions;
  EmbeddingShape shape;
  const StepInput* step;
  T* out;

  // N features of one row; the number of features is a multiple of N.
  template <int N>
  __device__ void At(int64_t first) const {
    const int64_t row = first / shape.features;
    const int64_t feature = first - row * shape.features;
    const int64_t sample = row / shape.tokens_per_sample;
    const int64_t token = sample < step->count ? tokens[row] : 0;
    const auto of_token = Vector<W, N>::Load(weight + token * shape.features + feature);
    Vector<T, N> value;
#pragma unroll
    for (int i = 0; i < N; ++i) value.values[i] = of_token.values[i];
    if (positions != nullptr) {
      const int64_t position = row - sample * shape.tokens_per_sample;
      const auto of_place = Vector<W, N>::Load(positions + position * shape.features + feature);
#pragma unroll
      for (int i = 0; i < N; ++i) value.values[i] += of_place.values[i];
    }
    value.Store(out + first);
  }
};

template <typename W, typename T>
struct PositionsOf {
  const T* in;
  const W* weight;
  int64_t sample_size;
  T* out;

  // N features of one row, as above.
  template <int N>
  __device__ void At(int64_t first) const {
    auto value = Vector<T, N>::Load(in + first);
    const auto of_place = Vector<W, N>::Load(weight + first % sample_size);
#pragma unroll
    for (int i = 0; i < N; ++i) value.values[i] += of_place.values[i];
    value.Store(out + first);
  }
};

// A thread takes as many features as the length of rows allows.
template <typename Apply>
cudaError_t ForEachFeatures(cudaStream_t stream, EmbeddingShape shape, const Apply& apply) {
  const int64_t size = shape.rows() * shape.features;
  if (shape.features % 8 == 0) return ForEach<8>(stream, size, apply);
  return ForEach<1>(stream, size, apply);
}

}  // namespace

template <typename W, typename T>
cudaError_t EmbeddingForward(cudaStream_t stream, const int32_t* tokens, const W* weight,
                             const W* positions, EmbeddingShape shape, const StepInput* step,
                             T* out) {
  return ForEachFeatures(stream, shape,
                         EmbeddingOf<W, T>{tokens, weight, positions, shape, step, out});
}

template <typename W, typename T>
cudaError_t PositionsForward(cudaStream_t stream, const T* in, const W* weight,
                             EmbeddingShape shape, T* out) {
  const int64_t sample_size = shape.tokens_per_sample * shape.features;
  return ForEachFeatures(stream, shape, PositionsOf<W, T>{in, weight, sample_size, out});
}

#define DP_INSTANTIATE(W, T)                                                              \
  template cudaError_t EmbeddingForward(cudaStream_t, const int32_t*, const W*, const W*, \
                                        EmbeddingShape, const StepInput*, T*);            \
  template cudaError_t PositionsForward(cudaStream_t, const T*, const W*, EmbeddingShape, T*);
DP_INSTANTIATE(float, float)
DP_INSTANTIATE(float, bf16)
DP_INSTANTIATE(bf16, bf16)
#undef DP_INSTANTIATE

}  // namespace dp::engine::cuda
