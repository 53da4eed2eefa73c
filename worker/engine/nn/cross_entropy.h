#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace dp::engine {

// Softmax cross-entropy over rows of logits; a row is a sample or one token of a sample. Only the
// first `labels.size()` rows count; every label is below `classes`.

struct CrossEntropy {
  double loss_sum = 0;
  int64_t correct = 0;  // rows whose largest logit (the first of equal ones) is the label's
};

CrossEntropy SoftmaxCrossEntropy(absl::Span<const float> logits, int classes,
                                 absl::Span<const int32_t> labels);

// log(sum(exp(row))), computed relative to the largest logit so that exp cannot overflow.
float LogSumExp(absl::Span<const float> row);

// d(scale * loss_sum) / d(logits): (softmax - one-hot) * scale; zero in rows that do not count.
void SoftmaxCrossEntropyGradient(absl::Span<const float> logits, int classes,
                                 absl::Span<const int32_t> labels, float scale,
                                 absl::Span<float> gradient);

}  // namespace dp::engine
