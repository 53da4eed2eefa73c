#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/nn/loss.h"

namespace dp::engine {

// The measures that an evaluation takes beside its loss.
struct MeasureOptions {
  int columns = 1;                      // outputs of a row
  std::optional<int32_t> ignored = {};  // a label whose rows do not count
  bool top5 = false;                    // needs labels, and more than five columns
  bool confusion = false;               // needs labels
  bool absolute_error = false;          // needs targets
  bool r2 = false;                      // needs targets
};

struct Measures {
  // The share of rows whose label is among the five largest outputs, earlier ones first if equal.
  std::optional<double> top5;
  // columns x columns counts of rows: by label, then by the largest output. Empty: not taken.
  std::vector<int64_t> confusion;
  std::optional<double> mean_absolute_error;  // over all outputs and targets
  // The mean over columns of 1 - (sum of squared errors) / (sum of squared distances of the targets
  // from their mean): scikit-learn's r2_score. A column of equal targets has 1 without an error,
  // else 0.
  std::optional<double> r2;
};

// The sums from which the measures follow. Sums of batches and of ranks add up; counts are exact
// below 2^53. Not thread-safe.
class MeasureSums {
 public:
  explicit MeasureSums(const MeasureOptions& options);

  // Adds the rows that count. With labels, `rows.targets` is not read, and the other way round.
  void Add(const LossInput& rows);
  // All sums, which are to be added to those of other ranks. Empty if there is nothing to measure.
  absl::Span<double> sums() { return absl::MakeSpan(sums_); }
  Measures Result() const;

 private:
  void AddLabels(const LossInput& rows);
  void AddTargets(const LossInput& rows);
  double R2() const;

  const MeasureOptions options_;
  // First the count of rows. Then, of those that are taken, in this order:
  // - the rows of the top five;
  // - the confusion matrix;
  // - the sum of absolute errors;
  // - for each column the sums of targets, of their squares and of squared errors.
  std::vector<double> sums_;
};

}  // namespace dp::engine
