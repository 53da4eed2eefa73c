#include "worker/engine/device/cuda/attention/cuda_rotary.h"

#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// The first items of a row are N features of the first half of a query or key, with their partners
// in the second half. Behind them are the row's values. Queries and keys have as many items as the
// values, so a row has 2 x features / N.
template <typename T>
struct RotateOf {
  const T* in;
  const float* cosines;
  const float* sines;
  AttentionShape shape;
  float direction;
  T* out;

  template <int N>
  __device__ void At(int64_t first) const {
    const int64_t features = shape.features();
    const int64_t row = first / (2 * features), item = first % (2 * features);
    const int64_t begin = row * 3 * features;
    if (item >= features) {
      Packed<T, N>::Load(in + begin + features + item).Store(out + begin + features + item);
      return;
    }
    const int64_t half = shape.head_features / 2;
    const int64_t head = item / half, pair = item % half;  // queries' heads, then keys'
    const int64_t at = begin + head * shape.head_features + pair;
    const int64_t angle = row % shape.tokens * half + pair;
    const auto a = Vector<T, N>::Load(in + at), b = Vector<T, N>::Load(in + at + half);
    const auto cosine = Vector<float, N>::Load(cosines + angle);
    const auto sine = Vector<float, N>::Load(sines + angle);
    Vector<T, N> turned_a, turned_b;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float turn = direction * sine.values[i];
      turned_a.values[i] = a.values[i] * cosine.values[i] - b.values[i] * turn;
      turned_b.values[i] = b.values[i] * cosine.values[i] + a.values[i] * turn;
    }
    turned_a.Store(out + at);
    turned_b.Store(out + at + half);
  }
};

}  // namespace

template <typename T>
cudaError_t Rotate(cudaStream_t stream, const T* in, const float* table,
                   const AttentionShape& shape, bool backwards, T* out) {
  const int64_t half = shape.head_features / 2;
  const RotateOf<T> rotate = {
      in, table, table + shape.tokens * half, shape, backwards ? -1.0f : 1.0f, out};
  const int64_t items = shape.samples * shape.tokens * 2 * shape.features();
  if (half % kWidth<T> == 0) return ForEach<kWidth<T>>(stream, items, rotate);
  return ForEach<1>(stream, items, rotate);
}
template cudaError_t Rotate(cudaStream_t, const float*, const float*, const AttentionShape&, bool,
                            float*);
template cudaError_t Rotate(cudaStream_t, const bf16*, const float*, const AttentionShape&, bool,
                            bf16*);

}  // namespace dp::engine::cuda
