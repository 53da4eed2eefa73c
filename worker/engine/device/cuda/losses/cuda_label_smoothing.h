#pragma once

#include "worker/engine/device/cuda/losses/cuda_cross_entropy.h"

// Label smoothing's part of a cross-entropy, as nn/loss.h defines it. With smoothing s a row's
// loss grows by s (logit of the label - mean of the row's logits).

namespace dp::engine::cuda {

// row_terms[row] receives the row's part of the loss, 0 for padding. Runs before the
// cross-entropy, which may overwrite the logits.
template <typename T>
cudaError_t MeasureSmoothing(cudaStream_t stream, const T* logits, const int32_t* labels,
                             LogitsShape shape, float smoothing, const StepInput* step,
                             float* row_terms);

// Adds the rows' parts to *output.sums, and writes output.tail anew where there is one. Where
// `gradient` is not null, adds s (one-hot - 1 / classes) step->gradient_scale to it.
template <typename T>
cudaError_t AddSmoothing(cudaStream_t stream, const float* row_terms, const int32_t* labels,
                         LogitsShape shape, float smoothing, LossOutput output, T* gradient);

}  // namespace dp::engine::cuda
