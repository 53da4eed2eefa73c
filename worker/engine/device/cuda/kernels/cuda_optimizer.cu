#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_optimizer.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

// This file is compiled without fused multiply-adds. Memory bounds its kernels: AdamW moves 28
// bytes a value.

namespace dp::engine::cuda {
namespace {

// Elements of one thread: 16 bytes of each float array.
constexpr int kElements = 4;

// One step of nn/sgd.h for N values.
struct SgdStepOf {
  SgdOptions options;
  UpdateGroupsOnDevice groups;
  const double* learning_rate;
  int64_t begin;
  SgdArrays arrays;

  template <int N>
  __device__ void At(int64_t i) const {
    const int64_t first = begin + i;
    const UpdateGroup& group = groups.groups[groups.of_blocks[first / kUpdateBlock]];
    if (group.frozen) return;
    using Floats = Vector<float, N>;
    const Floats gradient = Floats::Load(arrays.gradients + first);
    Floats velocity = Floats::Load(arrays.velocity + first);
    Floats value = Floats::Load(arrays.values + first);
    const float factor = *arrays.gradient_factor;
    const auto rate = static_cast<float>(*learning_rate * group.learning_rate_factor);
    const auto decay = static_cast<float>(group.weight_decay);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = gradient.values[i] * factor + decay * value.values[i];
      velocity.values[i] = options.momentum * velocity.values[i] + d;
      value.values[i] -= rate * (options.nesterov ? d + options.momentum * velocity.values[i]
                                                  : velocity.values[i]);
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

// StepStatistics of nn/parameter.h for N values.
struct StatisticsOf {
  UpdateGroupsOnDevice groups;
  int64_t begin;
  const float* gradients;
  float* values;

  template <int N>
  __device__ void At(int64_t of_range) const {
    const int64_t i = begin + of_range;
    const double momentum = groups.groups[groups.of_blocks[i / kUpdateBlock]].momentum;
    const auto kept = static_cast<float>(1 - momentum), taken = static_cast<float>(momentum);
    const auto measured = Vector<float, N>::Load(gradients + i);
    auto value = Vector<float, N>::Load(values + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      value.values[k] = kept * value.values[k] + taken * measured.values[k];
    }
    value.Store(values + i);
  }
};

// nn/moving_average.h for N values.
struct AverageOf {
  const double* rest;
  int64_t begin;
  const float* values;
  float* average;

  template <int N>
  __device__ void At(int64_t of_range) const {
    const int64_t i = begin + of_range;
    const auto value = Vector<float, N>::Load(values + i);
    auto mean = Vector<float, N>::Load(average + i);
    const auto share = static_cast<float>(*rest);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float moved = mean.values[k] + share * (value.values[k] - mean.values[k]);
      mean.values[k] = share == 1 ? value.values[k] : moved;
    }
    mean.Store(average + i);
  }
};

__global__ void StoreDoubleKernel(double value, double* place) { *place = value; }

// A thread for each group.
__global__ void PrepareAdamWKernel(AdamWOptions options, const UpdateGroup* groups,
                                   const double* learning_rate, int64_t* step,
                                   AdamWFactors* factors) {
  factors[threadIdx.x] = AdamWFactorsOf(options, groups[threadIdx.x], *learning_rate, *step);
  __syncthreads();
  if (threadIdx.x == 0) ++*step;
}

// The update of nn/adamw.h for N values of one group.
struct AdamWStepOf {
  const AdamWFactors* factors;
  const uint8_t* of_blocks;
  int64_t begin;
  AdamWArrays arrays;

  template <int N>
  __device__ void At(int64_t of_range) const {
    const int64_t i = begin + of_range;
    const AdamWFactors own = factors[of_blocks[i / kUpdateBlock]];
    if (own.frozen) return;
    using Floats = Vector<float, N>;
    const Floats gradient = Floats::Load(arrays.gradients + i);
    Floats value = Floats::Load(arrays.values + i);
    Floats first = Floats::Load(arrays.first + i);
    Floats second = Floats::Load(arrays.second + i);
    const float factor = *arrays.gradient_factor;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      value.values[k] = AdamWValue(own, gradient.values[k] * factor, value.values[k],
                                   first.values[k], second.values[k]);
    }
    first.Store(arrays.first + i);
    second.Store(arrays.second + i);
    value.Store(arrays.values + i);
    if (arrays.rounded == nullptr) return;
    Vector<bf16, N> rounded;
#pragma unroll
    for (int k = 0; k < N; ++k) rounded.values[k] = value.values[k];
    rounded.Store(arrays.rounded + i);
  }
};

}  // namespace

cudaError_t StoreDouble(cudaStream_t stream, double value, double* place) {
  return Launch(stream, {1, 1}, StoreDoubleKernel, value, place);
}

cudaError_t StepStatistics(cudaStream_t stream, const UpdateGroupsOnDevice& groups,
                           ValueRange range, const float* gradients, float* values) {
  return ForEach<kElements>(stream, range.size,
                            StatisticsOf{groups, range.first, gradients, values});
}

cudaError_t Average(cudaStream_t stream, const double* rest, ValueRange range, const float* values,
                    float* average) {
  return ForEach<kElements>(stream, range.size, AverageOf{rest, range.first, values, average});
}

cudaError_t SgdUpdate(cudaStream_t stream, const SgdOptions& options,
                      const UpdateGroupsOnDevice& groups, const double* learning_rate,
                      ValueRange range, SgdArrays arrays) {
  return ForEach<kElements>(stream, range.size,
                            SgdStepOf{options, groups, learning_rate, range.first, arrays});
}

cudaError_t PrepareAdamW(cudaStream_t stream, const AdamWOptions& options,
                         const UpdateGroupsOnDevice& groups, const double* learning_rate,
                         int64_t* step, AdamWFactors* factors) {
  return Launch(stream, {1, static_cast<unsigned>(groups.count)}, PrepareAdamWKernel, options,
                groups.groups, learning_rate, step, factors);
}

cudaError_t AdamWUpdate(cudaStream_t stream, const AdamWFactors* factors, const uint8_t* of_blocks,
                        ValueRange range, AdamWArrays arrays) {
  return ForEach<kElements>(stream, range.size,
                            AdamWStepOf{factors, of_blocks, range.first, arrays});
}

}  // namespace dp::engine::cuda
