#include "base/data/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace dp::data {

void ChannelSums::Add(absl::Span<const float> sample, bool bytes) {
  const size_t part = sample.size() / sums_.size();
  const double scale = bytes ? 1 / 255.0 : 1;
  for (size_t channel = 0; channel < sums_.size(); ++channel) {
    for (const float value : sample.subspan(channel * part, part)) {
      const double scaled = value * scale;
      sums_[channel] += scaled;
      squares_[channel] += scaled * scaled;
    }
  }
  count_ += static_cast<int64_t>(part);
}

std::vector<double> ChannelSums::mean() const {
  std::vector<double> all;
  for (const double sum : sums_) all.push_back(count_ == 0 ? 0 : sum / static_cast<double>(count_));
  return all;
}

std::vector<double> ChannelSums::std() const {
  std::vector<double> all = mean();
  for (size_t channel = 0; channel < all.size(); ++channel) {
    const double square = count_ == 0 ? 0 : squares_[channel] / static_cast<double>(count_);
    all[channel] = std::sqrt(std::max(0.0, square - all[channel] * all[channel]));
  }
  return all;
}

absl::StatusOr<ChannelSums> SumsOf(const Rows& rows, const std::string& file) {
  ChannelSums sums(rows.shape()[0]);
  std::vector<float> sample(static_cast<size_t>(rows.elements()));
  for (int64_t row = 0; row < rows.size(); ++row) {
    rows.Read(row, absl::MakeSpan(sample));
    DP_RETURN_IF_ERROR(CheckFinite(sample, file, row));
    sums.Add(sample, rows.type() == ElementType::kUint8);
  }
  return sums;
}

std::vector<int64_t> ClassCounts(const Labels& labels) {
  std::vector<int64_t> counts(static_cast<size_t>(labels.classes()));
  for (int64_t i = 0; i < labels.size(); ++i) ++counts[labels.at(i)];
  return counts;
}

}  // namespace dp::data
