#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/data/rows.h"

namespace dp::data {

enum class Split { kTrain, kTest };

// The classes of samples, a byte each where all are below 256.
class Labels {
 public:
  Labels() = default;
  explicit Labels(std::vector<int32_t> labels);
  explicit Labels(std::vector<uint8_t> labels);

  int64_t size() const { return static_cast<int64_t>(std::max(bytes_.size(), wide_.size())); }
  int32_t at(int64_t sample) const { return wide_.empty() ? bytes_[sample] : wide_[sample]; }
  // The largest label and 1; 0 without samples.
  int classes() const { return classes_; }
  // Empty if some label is above 255.
  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> wide_;
  int classes_ = 0;
};

// Samples as files hold them: inputs, and either a class or numbers to predict for each.
struct SampleSet {
  Rows inputs;
  Labels labels;
  std::optional<Rows> targets;  // then `labels` is empty
  std::string labels_name;      // the file of the labels, for errors
  std::string inputs_name;      // the files of numbers that need not be finite, for errors
  std::string targets_name;
};

// Errors: InvalidArgument names `file`, the sample and the place of a number that is infinite or
// none.
absl::Status CheckFinite(absl::Span<const float> numbers, const std::string& file, int64_t sample);

// One label of each row, which holds one element.
// Errors: InvalidArgument names `file`, the sample and a label that is no class.
absl::StatusOr<Labels> LabelsFrom(const Rows& rows, const std::string& file);

// Floats, which count classes elsewhere, are exact below this.
inline constexpr int32_t kClassesMax = 1 << 24;

}  // namespace dp::data
