#include "worker/engine/device/cuda/cuda_for_each.h"
#include "worker/engine/device/cuda/cuda_optimizer.h"
#include "worker/engine/device/cuda/cuda_random.h"
#include "worker/engine/device/cuda/cuda_vector.h"

// This file is compiled without fused multiply-adds. Its kernels wait for memory: 28 bytes a value
// for AdamW.

namespace dp::engine::cuda {
namespace {

// Elements of one thread: 16 bytes of each float array.
constexpr int kElements = 4;

// One step of nn/sgd.h for N values.
struct SgdStepOf {
  SgdOptions options;
  const float* learning_rate;
  SgdArrays arrays;

  template <int N>
  __device__ void At(int64_t first) const {
    using Floats = Vector<float, N>;
    const Floats gradient = Floats::Load(arrays.gradients + first);
    Floats velocity = Floats::Load(arrays.velocity + first);
    Floats value = Floats::Load(arrays.values + first);
    const float rate = *learning_rate;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      velocity.values[i] = options.momentum * velocity.values[i] +
                           (gradient.values[i] + options.weight_decay * value.values[i]);
      value.values[i] -= rate * velocity.values[i];
    }
    velocity.Store(arrays.velocity + first);
    value.Store(arrays.values + first);
    if (arrays.rounded == nullptr) return;
    Vector<bf16, N> rounded;
#pragma unroll
    for (int i = 0; i < N; ++i) rounded.values[i] = value.values[i];
    rounded.Store(arrays.rounded + first);
  }
};

__global__ void PrepareAdamWKernel(AdamWOptions options, const double* learning_rate, int64_t* step,
                                   AdamWFactors* factors) {
  *factors = AdamWFactorsOf(options, *learning_rate, *step);
  ++*step;
}

// Whether the block that a value lies in decays; the same for four neighbours.
__device__ bool Decays(const uint32_t* decays, int64_t element) {
  const int64_t block = element / kDecayBlock;
  return (decays[block / 32] >> (block % 32) & 1) != 0;
}

// The update of nn/adamw.h for N values that decay or not together: changes moments and `value`.
template <int N, typename G>
__device__ void UpdateValues(const AdamWFactors& factors, bool decays, const G* gradients,
                             float* first_moments, float* second_moments, float (&value)[N]) {
  using Floats = Vector<float, N>;
  const auto gradient = Vector<G, N>::Load(gradients);
  Floats first = Floats::Load(first_moments);
  Floats second = Floats::Load(second_moments);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    value[i] = AdamWValue(factors, decays, gradient.values[i], value[i], first.values[i],
                          second.values[i]);
  }
  first.Store(first_moments);
  second.Store(second_moments);
}

template <typename G>
struct AdamWStepOf {
  const AdamWFactors* factors;
  const uint32_t* decays;
  int64_t begin;
  AdamWArrays<G> arrays;

  template <int N>
  __device__ void At(int64_t place) const {
    const int64_t i = begin + place;
    auto value = Vector<float, N>::Load(arrays.values + i);
    UpdateValues<N>(*factors, Decays(decays, i), arrays.gradients + i, arrays.first + i,
                    arrays.second + i, value.values);
    value.Store(arrays.values + i);
    if (arrays.rounded == nullptr) return;
    Vector<bf16, N> rounded;
#pragma unroll
    for (int k = 0; k < N; ++k) rounded.values[k] = value.values[k];
    rounded.Store(arrays.rounded + i);
  }
};

template <typename G>
struct AdamWRoundedStepOf {
  const AdamWFactors* factors;
  const uint32_t* decays;
  uint64_t seed;
  int64_t begin;
  AdamWRoundedArrays<G> arrays;

  template <int N>
  __device__ void At(int64_t place) const {
    const int64_t i = begin + place;
    auto value = Vector<bf16, N>::Load(arrays.values + i);
    UpdateValues<N>(*factors, Decays(decays, i), arrays.gradients + i, arrays.first + i,
                    arrays.second + i, value.values);
    const uint64_t draw = RoundingDraw(seed, factors->step, i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const uint16_t bits =
          RoundStochastically(__float_as_uint(value.values[k]), RoundingBits(draw, i + k));
      value.values[k] = __uint_as_float(static_cast<uint32_t>(bits) << 16);
    }
    value.Store(arrays.values + i);  // exact: they are bf16 already
  }
};

}  // namespace

cudaError_t SgdUpdate(cudaStream_t stream, const SgdOptions& options, const float* learning_rate,
                      int64_t size, SgdArrays arrays) {
  return ForEach<kElements>(stream, size, SgdStepOf{options, learning_rate, arrays});
}

cudaError_t PrepareAdamW(cudaStream_t stream, const AdamWOptions& options,
                         const double* learning_rate, int64_t* step, AdamWFactors* factors) {
  return Launch(stream, {1, 1}, PrepareAdamWKernel, options, learning_rate, step, factors);
}

template <typename G>
cudaError_t AdamWUpdate(cudaStream_t stream, const AdamWFactors* factors, const uint32_t* decays,
                        UpdateRange range, AdamWArrays<G> arrays) {
  return ForEach<kElements>(stream, range.size,
                            AdamWStepOf<G>{factors, decays, range.begin, arrays});
}
template cudaError_t AdamWUpdate(cudaStream_t, const AdamWFactors*, const uint32_t*, UpdateRange,
                                 AdamWArrays<float>);
template cudaError_t AdamWUpdate(cudaStream_t, const AdamWFactors*, const uint32_t*, UpdateRange,
                                 AdamWArrays<bf16>);

template <typename G>
cudaError_t AdamWUpdateRounded(cudaStream_t stream, const AdamWFactors* factors,
                               const uint32_t* decays, uint64_t seed, UpdateRange range,
                               AdamWRoundedArrays<G> arrays) {
  return ForEach<kElements>(stream, range.size,
                            AdamWRoundedStepOf<G>{factors, decays, seed, range.begin, arrays});
}
template cudaError_t AdamWUpdateRounded(cudaStream_t, const AdamWFactors*, const uint32_t*,
                                        uint64_t, UpdateRange, AdamWRoundedArrays<float>);
template cudaError_t AdamWUpdateRounded(cudaStream_t, const AdamWFactors*, const uint32_t*,
                                        uint64_t, UpdateRange, AdamWRoundedArrays<bf16>);

}  // namespace dp::engine::cuda
