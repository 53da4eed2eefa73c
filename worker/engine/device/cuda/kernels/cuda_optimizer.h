#pragma once

#include "worker/engine/device/cuda/kernels/cuda_adamw_update.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"
#include "worker/engine/device/cuda/kernels/cuda_update_blocks.h"
#include "worker/engine/nn/sgd.h"

// One kernel does any number of parameters: a range of the flat arrays of a ParameterLayout. In
// float, both optimizers give the bits of their CPU twins.

namespace dp::engine::cuda {

// Sets a number that later steps read from device memory, such as the learning rate. A kernel does
// it, because a copy from the host's memory would wait for the stream.
cudaError_t StoreDouble(cudaStream_t stream, double value, double* place);

// UpdateBlocks in device memory.
struct UpdateGroupsOnDevice {
  const UpdateGroup* groups = nullptr;
  int count = 0;
  const uint8_t* of_blocks = nullptr;
};

// nn/sgd.h. The arrays hold the whole layout. The learning rate is read from device memory.
// `rounded`, where not null, receives the new values rounded to bf16, for the matrix products of
// the next step.
struct SgdArrays {
  const float* gradients = nullptr;
  const float* gradient_factor = nullptr;  // in device memory; multiplies the gradients
  float* velocity = nullptr;
  float* values = nullptr;
  bf16* rounded = nullptr;
};
cudaError_t SgdUpdate(cudaStream_t stream, const SgdOptions& options,
                      const UpdateGroupsOnDevice& groups, const double* learning_rate,
                      ValueRange range, SgdArrays arrays);

// Computes the factors of AdamW's step `*step` for each group, from device memory to device memory;
// then counts the step: *step += 1. One thread does a group, in double precision as on the CPU.
cudaError_t PrepareAdamW(cudaStream_t stream, const AdamWOptions& options,
                         const UpdateGroupsOnDevice& groups, const double* learning_rate,
                         int64_t* step, AdamWFactors* factors);

// nn/adamw.h. The arrays hold the whole layout.
struct AdamWArrays {
  const float* gradients = nullptr;
  const float* gradient_factor = nullptr;  // as in SgdArrays
  float* first = nullptr;
  float* second = nullptr;
  float* values = nullptr;
  bf16* rounded = nullptr;  // as in SgdArrays
};
// `factors` by group, `of_blocks` as in UpdateBlocks.
cudaError_t AdamWUpdate(cudaStream_t stream, const AdamWFactors* factors, const uint8_t* of_blocks,
                        ValueRange range, AdamWArrays arrays);

// StepStatistics of nn/parameter.h, for a range of statistics. `groups` have their momentum.
cudaError_t StepStatistics(cudaStream_t stream, const UpdateGroupsOnDevice& groups,
                           ValueRange range, const float* gradients, float* values);

// nn/moving_average.h. `rest` is 1 - decay, in device memory; 1 takes the values as they are.
cudaError_t Average(cudaStream_t stream, const double* rest, ValueRange range, const float* values,
                    float* average);

}  // namespace dp::engine::cuda
