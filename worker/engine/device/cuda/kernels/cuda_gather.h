#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"

// Gathers a batch from a data set that lies on the device. `samples` are the numbers of the batch's
// samples (Batch::samples). Rows from step->count on are padding: their images, tokens and labels
// become zeroes.

namespace dp::engine::cuda {

struct ImageSet {
  const uint8_t* images = nullptr;  // samples x pixels
  const uint8_t* labels = nullptr;
  int64_t pixels = 0;
  // A pixel x becomes (x / 255 - mean) / std, with the same bits as in ArrayDataset.
  float mean = 0;
  float std = 1;
};

template <typename T>
cudaError_t GatherImages(cudaStream_t stream, const ImageSet& set, const int64_t* samples,
                         int64_t batch_size, const StepInput* step, T* images, int32_t* labels);

struct TokenSet {
  const uint16_t* tokens = nullptr;  // all files, one after another
  const int64_t* windows = nullptr;  // for each sample, where its window begins in `tokens`
  int64_t tokens_per_sample = 0;     // a window has one token more, the last label
};

cudaError_t GatherTokens(cudaStream_t stream, const TokenSet& set, const int64_t* samples,
                         int64_t batch_size, const StepInput* step, int32_t* tokens,
                         int32_t* labels);

}  // namespace dp::engine::cuda
