#include "worker/engine/data/subset_dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/engine/data/sampler.h"

namespace dp::engine {
namespace {

class SubsetDataset : public Dataset {
 public:
  SubsetDataset(std::shared_ptr<const Dataset> base, std::vector<int64_t> samples)
      : base_(std::move(base)), samples_(std::move(samples)) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const model::Shape& sample_shape() const override { return base_->sample_shape(); }
  int classes() const override { return base_->classes(); }
  model::Shape target_shape() const override { return base_->target_shape(); }
  bool of_tokens() const override { return base_->of_tokens(); }

  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    base_->Gather(NumbersOf(samples), images, labels);
  }
  absl::Status Read(const SampleRows& rows) const override {
    SampleRows in_base = rows;
    const std::vector<int64_t> numbers = NumbersOf(rows.samples);
    in_base.samples = numbers;
    return base_->Read(in_base);
  }

 private:
  std::vector<int64_t> NumbersOf(absl::Span<const int64_t> samples) const {
    std::vector<int64_t> numbers;
    for (const int64_t sample : samples) {
      DP_CHECK(sample >= 0 && sample < size());
      numbers.push_back(samples_[sample]);
    }
    return numbers;
  }

  const std::shared_ptr<const Dataset> base_;
  const std::vector<int64_t> samples_;
};

}  // namespace

absl::StatusOr<SampleSplit> SplitSamples(int64_t samples, double share, uint64_t seed) {
  const int64_t kept = std::max<int64_t>(1, std::llround(static_cast<double>(samples) * share));
  if (kept >= samples) {
    return absl::InvalidArgumentError(
        absl::StrCat("train.data.validation ", share, " of ", samples,
                     " samples leaves none to train on; make it smaller, or give more samples"));
  }
  std::vector<int64_t> order = RandomPermutation(samples, seed);
  SampleSplit split;
  split.test.assign(order.end() - kept, order.end());
  order.resize(static_cast<size_t>(samples - kept));
  split.train = std::move(order);
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.test.begin(), split.test.end());
  return split;
}

std::unique_ptr<Dataset> MakeSubset(std::shared_ptr<const Dataset> base,
                                    std::vector<int64_t> samples) {
  return std::make_unique<SubsetDataset>(std::move(base), std::move(samples));
}

}  // namespace dp::engine
