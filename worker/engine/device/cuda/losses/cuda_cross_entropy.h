#pragma once

#include "worker/engine/device/cuda/kernels/cuda_types.h"
#include "worker/engine/device/cuda/losses/cuda_loss_output.h"

namespace dp::engine::cuda {

// Rows of logits with a label each: samples, or their tokens.
struct LogitsShape {
  int64_t samples = 0;          // batch size
  int64_t rows_per_sample = 1;  // labels of a sample
  int64_t classes = 0;
  int64_t stride = 0;  // elements from a row to the next: `classes`, or more where rows are padded

  DP_HOST_DEVICE int64_t rows() const { return samples * rows_per_sample; }
};

// Bytes that SoftmaxCrossEntropy needs: the loss of each row, and whether the row is correct.
int64_t CrossEntropyWorkspace(LogitsShape shape);

// Softmax cross-entropy as nn/cross_entropy.h defines it, over the rows of the first step->count
// samples. Overwrites `sums`. Where `gradient` is not null, writes (softmax - one-hot)
// step->gradient_scale to it, and zeroes to rows of padding and to columns from `classes` to
// `stride`. `gradient` has the logits' shape and may be `logits`. `tail` is null or as in
// LossOutput.
//
// Rows of more than 1024 classes are read once if two of them fit a multiprocessor's shared memory.
// All other rows are read again, from the cache.
template <typename T>
cudaError_t SoftmaxCrossEntropy(cudaStream_t stream, const T* logits, const int32_t* labels,
                                LogitsShape shape, const StepInput* step, void* workspace,
                                LossSums* sums, T* gradient, float* tail = nullptr);

}  // namespace dp::engine::cuda
