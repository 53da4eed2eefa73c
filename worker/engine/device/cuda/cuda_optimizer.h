#pragma once

#include "worker/engine/device/cuda/cuda_adamw_update.h"
#include "worker/engine/device/cuda/cuda_types.h"
#include "worker/engine/nn/sgd.h"

// One kernel for all parameters: the flat arrays of a ParameterLayout. In float, both give the bits
// of their CPU twins.

namespace dp::engine::cuda {

// nn/sgd.h. The learning rate is read from device memory. `rounded`, where not null, takes the new
// values rounded to bf16, for the matrix products of the next step.
struct SgdArrays {
  const float* gradients = nullptr;
  float* velocity = nullptr;
  float* values = nullptr;
  bf16* rounded = nullptr;
};
cudaError_t SgdUpdate(cudaStream_t stream, const SgdOptions& options, const float* learning_rate,
                      int64_t size, SgdArrays arrays);

// Computes what step `*step` of AdamW multiplies with, from device memory to device memory; then
// counts the step: *step += 1. One thread's work, in double precision as on the CPU.
cudaError_t PrepareAdamW(cudaStream_t stream, const AdamWOptions& options,
                         const double* learning_rate, int64_t* step, AdamWFactors* factors);

// nn/adamw.h over arrays with float masters. G, the gradients' precision, is float or bf16.
template <typename G>
struct AdamWArrays {
  const G* gradients = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  float* values = nullptr;
  bf16* rounded = nullptr;  // as in SgdArrays
};
// The values from which an update begins and how many: all of the arrays, or what a bucket has of
// them, as its gradients become complete. `begin` is a multiple of kDecayBlock.
struct UpdateRange {
  int64_t begin = 0;
  int64_t size = 0;
};

// `decays` says which blocks of the whole arrays decay (DecayBlocks), pointers are those of the
// whole arrays.
template <typename G>
cudaError_t AdamWUpdate(cudaStream_t stream, const AdamWFactors* factors, const uint32_t* decays,
                        UpdateRange range, AdamWArrays<G> arrays);

// The same without masters: values are bf16, and what a step would round away is kept on average by
// rounding up or down at random, with a probability that makes the mean exact. Random bits are a
// function of `seed`, the step and the element's place, so ranks that hold the same values keep
// them the same.
template <typename G>
struct AdamWRoundedArrays {
  const G* gradients = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  bf16* values = nullptr;
};
template <typename G>
cudaError_t AdamWUpdateRounded(cudaStream_t stream, const AdamWFactors* factors,
                               const uint32_t* decays, uint64_t seed, UpdateRange range,
                               AdamWRoundedArrays<G> arrays);

}  // namespace dp::engine::cuda
