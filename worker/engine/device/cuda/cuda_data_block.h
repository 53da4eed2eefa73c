#pragma once

#include <cstdint>

#include "worker/engine/device/cuda/cuda_layers.h"

namespace dp::engine::cuda {

// Where a batch lies in one block of memory, alike on the host and on the device, so that one copy
// brings all of it, and a shorter one what a device needs that has the data set: bytes from the
// block's beginning, multiples of kArenaAlignment.
struct BatchBlock {
  int64_t step = 0;  // a StepInput
  int64_t samples = 0;
  int64_t labels = 0;
  int64_t input = 0;  // images as floats, or tokens as int32
  int64_t bytes = 0;

  // Bytes of all but what is gathered on the device.
  int64_t told_bytes() const { return labels; }
};

// More than a StepInput has.
inline constexpr int64_t kStepInputBytes = kArenaAlignment;

BatchBlock PlanBatchBlock(const LayerProgram& program);

// What a Batch for `program` holds, checked. The samples above `count` are padding, of which the
// device gets zeroes. Tokens of samples that count are below the vocabulary, labels of them below
// the classes: both are bugs of the caller otherwise.
// Writes samples, labels and input into `block`, memory laid out as `place`.
void FillBatchBlock(const LayerProgram& program, const BatchBlock& place, const Batch& batch,
                    char* block);
// The samples' numbers alone.
void FillSamples(const LayerProgram& program, const BatchBlock& place, const Batch& batch,
                 char* block);

}  // namespace dp::engine::cuda
