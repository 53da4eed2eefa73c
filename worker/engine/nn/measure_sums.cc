#include "worker/engine/nn/measure_sums.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace dp::engine {
namespace {

using Outputs = absl::Span<const float>;

constexpr int kTop = 5;
constexpr size_t kSumsOfColumn = 3;

size_t SumCount(const MeasureOptions& options) {
  const auto columns = static_cast<size_t>(options.columns);
  const size_t count = (options.top5 ? 1 : 0) + (options.confusion ? columns * columns : 0) +
                       (options.absolute_error ? 1 : 0) +
                       (options.r2 ? kSumsOfColumn * columns : 0);
  return count == 0 ? 0 : 1 + count;
}

// A NaN is ahead of all numbers, and a label whose output is NaN is behind all.
bool IsAmongTop(Outputs outputs, int32_t label) {
  int ahead = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool earlier = i < static_cast<size_t>(label);
    if (!(outputs[i] <= outputs[label]) || (outputs[i] == outputs[label] && earlier)) ++ahead;
  }
  return ahead < kTop;
}

}  // namespace

MeasureSums::MeasureSums(const MeasureOptions& options)
    : options_(options), sums_(SumCount(options)) {
  DP_CHECK(!options.top5 || options.columns > kTop);
}

void MeasureSums::Add(const LossInput& rows) {
  if (sums_.empty()) return;
  DP_CHECK(rows.columns == options_.columns);
  if (options_.top5 || options_.confusion) AddLabels(rows);
  if (options_.absolute_error || options_.r2) AddTargets(rows);
}

void MeasureSums::AddLabels(const LossInput& rows) {
  double* const confusion = sums_.data() + 1 + (options_.top5 ? 1 : 0);
  for (int64_t row = 0; row < rows.rows; ++row) {
    const int32_t label = rows.labels[row];
    if (label == options_.ignored) continue;
    const Outputs outputs = rows.outputs.subspan(row * rows.columns, rows.columns);
    sums_[0] += 1;
    if (options_.top5 && IsAmongTop(outputs, label)) sums_[1] += 1;
    if (!options_.confusion) continue;
    const auto predicted = std::max_element(outputs.begin(), outputs.end()) - outputs.begin();
    confusion[int64_t{label} * rows.columns + predicted] += 1;
  }
}

void MeasureSums::AddTargets(const LossInput& rows) {
  double* const of_columns = sums_.data() + 1 + (options_.absolute_error ? 1 : 0);
  sums_[0] += static_cast<double>(rows.rows);
  for (int64_t i = 0; i < rows.rows * rows.columns; ++i) {
    const double target = rows.targets[i], error = rows.outputs[i] - target;
    if (options_.absolute_error) sums_[1] += std::abs(error);
    if (!options_.r2) continue;
    double* const column = of_columns + i % rows.columns * kSumsOfColumn;
    column[0] += target;
    column[1] += target * target;
    column[2] += error * error;
  }
}

double MeasureSums::R2() const {
  const double* column = sums_.data() + 1 + (options_.absolute_error ? 1 : 0);
  const double rows = sums_[0];
  double sum = 0;
  for (int c = 0; c < options_.columns; ++c, column += kSumsOfColumn) {
    // The difference of two large sums may leave rounding alone, which counts as no distance.
    const double distances = column[1] - column[0] * column[0] / rows;
    const bool constant = distances <= 1e-14 * column[1];
    if (!constant) sum += 1 - column[2] / distances;
    if (constant && column[2] == 0) sum += 1;
  }
  return sum / options_.columns;
}

Measures MeasureSums::Result() const {
  Measures measures;
  if (sums_.empty()) return measures;
  const double rows = sums_[0];
  const double* const confusion = sums_.data() + 1 + (options_.top5 ? 1 : 0);
  if (options_.confusion) {
    const int64_t cells = int64_t{options_.columns} * options_.columns;
    measures.confusion.assign(confusion, confusion + cells);
  }
  if (rows == 0) return measures;
  if (options_.top5) measures.top5 = sums_[1] / rows;
  if (options_.absolute_error) measures.mean_absolute_error = sums_[1] / rows / options_.columns;
  if (options_.r2) measures.r2 = R2();
  return measures;
}

}  // namespace dp::engine
