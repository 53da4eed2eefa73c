#include "worker/engine/nn/weighted_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "worker/engine/nn/cross_entropy.h"

namespace dp::engine {
namespace {

double WeightOf(const CrossEntropyLoss& loss, int32_t label) {
  return loss.class_weights.empty() ? 1.0 : double{loss.class_weights[label]};
}

// The weights of all logarithms in a row's loss, w[c] s / C; empty without smoothing. The weight
// at the label comes on top.
std::vector<double> SmoothingOf(const CrossEntropyLoss& loss, int classes) {
  std::vector<double> weights;
  if (loss.label_smoothing == 0) return weights;
  for (int c = 0; c < classes; ++c) {
    weights.push_back(loss.label_smoothing / classes * WeightOf(loss, c));
  }
  return weights;
}

// Calls `each` with the outputs of every row that counts, its label, the weight of the label's
// logarithm, and the row's number.
template <typename Each>
void ForEachCounted(const CrossEntropyLoss& loss, const LossInput& input, const Each& each) {
  DP_CHECK(loss.class_weights.empty() ||
           static_cast<int>(loss.class_weights.size()) == input.columns);
  for (int64_t row = 0; row < input.rows; ++row) {
    const int32_t label = input.labels[row];
    if (label == loss.ignored) continue;
    DP_CHECK(label >= 0 && label < input.columns);
    each(input.outputs.subspan(row * input.columns, input.columns), label,
         (1 - loss.label_smoothing) * WeightOf(loss, label), row);
  }
}

}  // namespace

LossSum SumWeighted(const CrossEntropyLoss& loss, const LossInput& input) {
  const std::vector<double> smoothing = SmoothingOf(loss, input.columns);
  LossSum sum;
  ForEachCounted(
      loss, input, [&](absl::Span<const float> outputs, int32_t label, double weight, int64_t) {
        const double log_sum = LogSumExp(outputs);
        sum.loss_sum += weight * (log_sum - outputs[label]);
        for (size_t c = 0; c < smoothing.size(); ++c) {
          sum.loss_sum += smoothing[c] * (log_sum - outputs[c]);
        }
        sum.correct += std::max_element(outputs.begin(), outputs.end()) - outputs.begin() == label;
      });
  return sum;
}

void WeightedGradient(const CrossEntropyLoss& loss, const LossInput& input, float scale,
                      absl::Span<float> gradient) {
  const std::vector<double> smoothing = SmoothingOf(loss, input.columns);
  const double smoothed = std::accumulate(smoothing.begin(), smoothing.end(), 0.0);
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  ForEachCounted(
      loss, input, [&](absl::Span<const float> outputs, int32_t label, double weight, int64_t row) {
        float* slope = gradient.data() + row * input.columns;
        const float log_sum = LogSumExp(outputs);
        for (int c = 0; c < input.columns; ++c) {
          const double target = (smoothing.empty() ? 0 : smoothing[c]) + (c == label ? weight : 0);
          const double probability = std::exp(outputs[c] - log_sum);
          slope[c] = static_cast<float>((probability * (weight + smoothed) - target) * scale);
        }
      });
}

LabelTotals WeightedTotals(const CrossEntropyLoss& loss, absl::Span<const int32_t> labels) {
  LabelTotals totals;
  for (const int32_t label : labels) {
    if (label == loss.ignored) continue;
    ++totals.counted;
    totals.weight += WeightOf(loss, label);
  }
  return totals;
}

}  // namespace dp::engine
