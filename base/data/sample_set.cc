#include "base/data/sample_set.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dp::data {

Labels::Labels(std::vector<int32_t> labels) {
  const auto largest = std::max_element(labels.begin(), labels.end());
  if (largest == labels.end()) return;
  classes_ = *largest + 1;
  if (classes_ <= 256) {
    bytes_.assign(labels.begin(), labels.end());
  } else {
    wide_ = std::move(labels);
  }
}

Labels::Labels(std::vector<uint8_t> labels) : bytes_(std::move(labels)) {
  const auto largest = std::max_element(bytes_.begin(), bytes_.end());
  if (largest != bytes_.end()) classes_ = *largest + 1;
}

absl::Status CheckFinite(absl::Span<const float> numbers, const std::string& file, int64_t sample) {
  // Without branches, so that the compiler makes vectors of it.
  constexpr uint32_t kExponent = 0x7f800000;
  bool all = true;
  for (const float number : numbers) {
    all &= (std::bit_cast<uint32_t>(number) & kExponent) != kExponent;
  }
  if (all) return absl::OkStatus();
  const auto* const bad = std::find_if_not(numbers.begin(), numbers.end(),
                                           [](float each) { return std::isfinite(each); });
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": sample ", sample, " has ", *bad, " at place ", bad - numbers.begin(),
                   "; expected finite numbers; replace it, or leave the sample out"));
}

absl::StatusOr<Labels> LabelsFrom(const Rows& rows, const std::string& file) {
  if (const auto bytes = rows.contiguous_bytes()) {
    return Labels(std::vector<uint8_t>(bytes->begin(), bytes->end()));
  }
  std::vector<int32_t> labels(static_cast<size_t>(rows.size()));
  for (int64_t i = 0; i < rows.size(); ++i) {
    const std::optional<int64_t> label = rows.Whole(i);
    if (!label || *label < 0 || *label >= kClassesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          file, ": the label of sample ", i,
          label ? absl::StrCat(" is ", *label) : " has a fraction",
          "; expected a whole number from 0 to ", kClassesMax - 1,
          label ? "; number the classes from 0" : "; give numbers to predict as targets"));
    }
    labels[i] = static_cast<int32_t>(*label);
  }
  return Labels(std::move(labels));
}

}  // namespace dp::data
