#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"
#include "worker/engine/device/cuda/random/cuda_dropout.h"
#include "worker/engine/device/cuda/random/cuda_random.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
struct DropoutOf {
  const T* in;
  const int64_t* samples;
  DropoutShape shape;
  uint64_t threshold;
  uint64_t seed;
  float kept;  // 1 / (1 - p)
  const StepInput* step;
  T* out;

  // N elements of one sample; the sample size is a multiple of N.
  template <int N>
  __device__ void At(int64_t first) const {
    const int64_t row = first / shape.sample_size();
    auto value = Vector<T, N>::Load(in + first);
    const bool padding = row >= step->count;
    const uint64_t state = padding ? 0 : DropoutState(seed, step->draw, samples[row]);
    const int64_t place = first - row * shape.sample_size();
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const bool dropped = padding || Dropped(state, NumberOf(place + i), threshold);
      value.values[i] *= dropped ? 0.0f : kept;
    }
    value.Store(out + first);
  }

  // The element's number in PyTorch's order, from its place in memory.
  __device__ int64_t NumberOf(int64_t place) const {
    if (shape.channels == 1) return place;
    return place % shape.channels * shape.places + place / shape.channels;
  }
};

}  // namespace

template <typename T>
cudaError_t Dropout(cudaStream_t stream, const T* in, const int64_t* samples, DropoutShape shape,
                    DropoutOptions options, const StepInput* step, T* out) {
  const DropoutOf<T> apply = {.in = in,
                              .samples = samples,
                              .shape = shape,
                              .threshold = DropoutThreshold(options.p),
                              .seed = options.seed,
                              .kept = static_cast<float>(1 / (1 - options.p)),
                              .step = step,
                              .out = out};
  const int64_t size = shape.samples * shape.sample_size();
  if (shape.sample_size() % kWidth<T> == 0) return ForEach<kWidth<T>>(stream, size, apply);
  return ForEach<1>(stream, size, apply);
}
template cudaError_t Dropout(cudaStream_t, const float*, const int64_t*, DropoutShape,
                             DropoutOptions, const StepInput*, float*);
template cudaError_t Dropout(cudaStream_t, const bf16*, const int64_t*, DropoutShape,
                             DropoutOptions, const StepInput*, bf16*);

}  // namespace dp::engine::cuda
