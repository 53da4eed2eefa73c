#include "worker/engine/nn/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace dp::engine {
namespace {

using Row = absl::Span<const float>;

bool Correct(Row row, int32_t label) {
  return std::max_element(row.begin(), row.end()) - row.begin() == label;
}

}  // namespace

// The sum is a double, since a vocabulary has tens of thousands of logits.
float LogSumExp(absl::Span<const float> row) {
  const float largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (float logit : row) sum += std::exp(logit - largest);
  return largest + static_cast<float>(std::log(sum));
}

CrossEntropy SoftmaxCrossEntropy(absl::Span<const float> logits, int classes,
                                 absl::Span<const int32_t> labels) {
  DP_CHECK(logits.size() >= labels.size() * classes);
  CrossEntropy result;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Row row = logits.subspan(i * classes, classes);
    DP_CHECK(labels[i] >= 0 && labels[i] < classes);
    result.loss_sum += LogSumExp(row) - row[labels[i]];
    result.correct += Correct(row, labels[i]);
  }
  return result;
}

void SoftmaxCrossEntropyGradient(absl::Span<const float> logits, int classes,
                                 absl::Span<const int32_t> labels, float scale,
                                 absl::Span<float> gradient) {
  DP_CHECK(gradient.size() == logits.size() && logits.size() >= labels.size() * classes);
  for (size_t i = 0; i < labels.size(); ++i) {
    const Row row = logits.subspan(i * classes, classes);
    const float log_sum = LogSumExp(row);
    for (int c = 0; c < classes; ++c) {
      const float probability = std::exp(row[c] - log_sum);
      gradient[i * classes + c] = (probability - (c == labels[i] ? 1.0f : 0.0f)) * scale;
    }
  }
  const auto rest = gradient.subspan(labels.size() * classes);
  std::fill(rest.begin(), rest.end(), 0.0f);
}

}  // namespace dp::engine
