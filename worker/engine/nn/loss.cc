#include "worker/engine/nn/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/overloaded.h"
#include "worker/engine/nn/cross_entropy.h"
#include "worker/engine/nn/weighted_cross_entropy.h"

namespace dp::engine {
namespace {

using Row = absl::Span<const float>;

// --- Cross-entropy. The part of smoothing is the mean of -log(probability) over the classes.

double MeanLogLoss(Row row) {
  const float largest = *std::max_element(row.begin(), row.end());
  double exponentials = 0, sum = 0;
  for (const float output : row) {
    exponentials += std::exp(output - largest);
    sum += output;
  }
  return largest + std::log(exponentials) - sum / static_cast<double>(row.size());
}

LossSum Sum(const CrossEntropyLoss& loss, const LossInput& input) {
  if (WeighsLabels(loss)) return SumWeighted(loss, input);
  const auto labels = input.labels.first(static_cast<size_t>(input.rows));
  const CrossEntropy hard = SoftmaxCrossEntropy(input.outputs, input.columns, labels);
  if (loss.label_smoothing == 0) return {hard.loss_sum, hard.correct};
  double soft = 0;
  for (int64_t row = 0; row < input.rows; ++row) {
    soft += MeanLogLoss(input.outputs.subspan(row * input.columns, input.columns));
  }
  const double s = loss.label_smoothing;
  return {(1 - s) * hard.loss_sum + s * soft, hard.correct};
}

// Softmax minus the target, so smoothing only moves the target.
void Gradient(const CrossEntropyLoss& loss, const LossInput& input, float scale,
              absl::Span<float> gradient) {
  if (WeighsLabels(loss)) return WeightedGradient(loss, input, scale, gradient);
  const auto labels = input.labels.first(static_cast<size_t>(input.rows));
  SoftmaxCrossEntropyGradient(input.outputs, input.columns, labels, scale, gradient);
  if (loss.label_smoothing == 0) return;
  const double s = loss.label_smoothing;
  const auto everywhere = static_cast<float>(s / input.columns) * scale;
  const auto at_label = static_cast<float>(s) * scale;
  for (int64_t row = 0; row < input.rows; ++row) {
    float* slope = gradient.data() + row * input.columns;
    for (int c = 0; c < input.columns; ++c) slope[c] -= everywhere;
    slope[labels[row]] += at_label;
  }
}

// --- Losses of each output and its target: value(o, t) and its derivative in o.

double Value(const MseLoss&, double o, double t) { return (o - t) * (o - t); }
double Slope(const MseLoss&, double o, double t) { return 2 * (o - t); }

double Value(const L1Loss&, double o, double t) { return std::abs(o - t); }
double Slope(const L1Loss&, double o, double t) {
  return o == t ? 0 : o > t ? 1 : o < t ? -1 : o - t;
}

// log(1 + exp(o)) without overflow. A target that is no probability gives NaN.
double Value(const BceLoss&, double o, double t) {
  if (!(t >= 0 && t <= 1)) return std::numeric_limits<double>::quiet_NaN();
  return std::max(o, 0.0) - o * t + std::log1p(std::exp(-std::abs(o)));
}
double Slope(const BceLoss&, double o, double t) { return 1 / (1 + std::exp(-o)) - t; }

template <typename OfEach>
LossSum Sum(const OfEach& loss, const LossInput& input) {
  const int64_t count = input.rows * input.columns;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += Value(loss, input.outputs[i], input.targets[i]);
  return {.loss_sum = sum / input.columns};
}

template <typename OfEach>
void Gradient(const OfEach& loss, const LossInput& input, float scale, absl::Span<float> gradient) {
  const int64_t count = input.rows * input.columns;
  const double of_each = double{scale} / input.columns;
  for (int64_t i = 0; i < count; ++i) {
    gradient[i] = static_cast<float>(of_each * Slope(loss, input.outputs[i], input.targets[i]));
  }
  std::fill(gradient.begin() + count, gradient.end(), 0.0f);
}

// --- The norm.

double NormOf(const LossInput& input) {
  double squares = 0;
  for (int64_t i = 0; i < input.rows * input.columns; ++i) {
    squares += double{input.outputs[i]} * input.outputs[i];
  }
  return std::sqrt(squares);
}

LossSum Sum(const NormLoss&, const LossInput& input) {
  return {.loss_sum = NormOf(input) * static_cast<double>(input.rows)};
}

void Gradient(const NormLoss&, const LossInput& input, float scale, absl::Span<float> gradient) {
  const int64_t count = input.rows * input.columns;
  const double norm = NormOf(input);
  const double factor = norm == 0 ? 0 : scale * static_cast<double>(input.rows) / norm;
  for (int64_t i = 0; i < count; ++i) {
    gradient[i] = static_cast<float>(factor * input.outputs[i]);
  }
  std::fill(gradient.begin() + count, gradient.end(), 0.0f);
}

}  // namespace

LossSum SumLoss(const Loss& loss, const LossInput& input) {
  return std::visit([&](const auto& kind) { return Sum(kind, input); }, loss);
}

void LossGradient(const Loss& loss, const LossInput& input, float scale,
                  absl::Span<float> gradient) {
  DP_CHECK(gradient.size() == input.outputs.size());
  std::visit([&](const auto& kind) { Gradient(kind, input, scale, gradient); }, loss);
}

LabelTotals TotalsOf(const Loss& loss, int64_t rows, absl::Span<const int32_t> labels) {
  if (!WeighsLabels(loss)) return {.counted = rows, .weight = static_cast<double>(rows)};
  return WeightedTotals(std::get<CrossEntropyLoss>(loss), labels.first(static_cast<size_t>(rows)));
}

bool WeighsLabels(const Loss& loss) {
  const auto* cross_entropy = std::get_if<CrossEntropyLoss>(&loss);
  return cross_entropy != nullptr &&
         (cross_entropy->ignored.has_value() || !cross_entropy->class_weights.empty());
}

bool HasTargets(const Loss& loss) {
  return !std::holds_alternative<CrossEntropyLoss>(loss) && !std::holds_alternative<NormLoss>(loss);
}

}  // namespace dp::engine
