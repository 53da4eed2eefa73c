#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace dp::engine {

// Softmax cross-entropy over rows of logits, one row a sample or a token of it. Only the first
// `labels.size()` rows count; every label is below `classes`.

struct CrossEntropy {
  double loss_sum = 0;
  int64_t correct = 0;  // the largest logit, the first of equal ones, is the label's
};

CrossEntropy SoftmaxCrossEntropy(absl::Span<const float> logits, int classes,
                                 absl::Span<const int32_t> labels);

// d(scale * loss_sum) / d(logits): (softmax - one-hot) * scale; zero in rows that do not count.
void SoftmaxCrossEntropyGradient(absl::Span<const float> logits, int classes,
                                 absl::Span<const int32_t> labels, float scale,
                                 absl::Span<float> gradient);

}  // namespace dp::engine
