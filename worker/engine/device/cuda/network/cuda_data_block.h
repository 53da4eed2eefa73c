#pragma once

#include <cstdint>

#include "worker/engine/device/cuda/layers/cuda_layers.h"

namespace dp::engine::cuda {

// Where a batch lies in one block of memory, in the same layout on host and device. One copy brings
// all of it; a shorter copy suffices for a device that holds the data set. Offsets are bytes from
// the block's beginning, multiples of kArenaAlignment.
struct BatchBlock {
  int64_t step = 0;  // a StepInput
  int64_t samples = 0;
  int64_t labels = 0;  // or targets, as floats
  int64_t input = 0;   // images as floats, or tokens as int32
  int64_t bytes = 0;

  // Bytes of all but what the device can gather itself.
  int64_t told_bytes() const { return labels; }
};

// More than the size of a StepInput.
inline constexpr int64_t kStepInputBytes = kArenaAlignment;

BatchBlock PlanBatchBlock(const LayerProgram& program);

// Checks a Batch for `program` and writes its samples, labels or targets, and input into `block`,
// memory laid out as `place`. Samples from `count` on are padding, for which the device gets
// zeroes. Tokens of the other samples are below the vocabulary, and their labels below the classes;
// anything else is a bug of the caller.
void FillBatchBlock(const LayerProgram& program, const BatchBlock& place, const Batch& batch,
                    char* block);
// Writes the samples' numbers alone.
void FillSamples(const LayerProgram& program, const BatchBlock& place, const Batch& batch,
                 char* block);

}  // namespace dp::engine::cuda
