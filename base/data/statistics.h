#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/data/sample_set.h"

namespace dp::data {

// Adds up values channel by channel. Values of bytes count as a 255th, as in training.
class ChannelSums {
 public:
  explicit ChannelSums(int64_t channels) : sums_(channels), squares_(channels) {}

  // A sample with its channels one after another.
  void Add(absl::Span<const float> sample, bool bytes);
  std::vector<double> mean() const;
  std::vector<double> std() const;

 private:
  std::vector<double> sums_;
  std::vector<double> squares_;
  int64_t count_ = 0;  // values of a channel
};

// The sums of all samples of a file.
// Errors: those of CheckFinite.
absl::StatusOr<ChannelSums> SumsOf(const Rows& rows, const std::string& file);

// How many samples each class has.
std::vector<int64_t> ClassCounts(const Labels& labels);

}  // namespace dp::data
