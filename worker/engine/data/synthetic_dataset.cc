#include "worker/engine/data/synthetic_dataset.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/data/sample_random.h"

namespace dp::engine {
namespace {

// Keys of the numbers, in the place of an epoch.
constexpr uint64_t kPatternKey = 1;
constexpr uint64_t kTrainKey = 2;
constexpr uint64_t kTestKey = 3;

class SyntheticDataset : public Dataset {
 public:
  SyntheticDataset(const SyntheticDatasetOptions& options, data::Split split)
      : options_(options),
        size_(split == data::Split::kTrain ? options.samples : options.test_samples),
        noise_key_(split == data::Split::kTrain ? kTrainKey : kTestKey) {}

  int64_t size() const override { return size_; }
  const model::Shape& sample_shape() const override { return options_.shape; }
  int classes() const override { return options_.classes; }

  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    const int64_t elements = model::ElementCount(options_.shape);
    DP_CHECK(images.size() >= samples.size() * elements && labels.size() >= samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      DP_CHECK(samples[i] >= 0 && samples[i] < size_);
      labels[i] = static_cast<int32_t>(samples[i] % options_.classes);
      SampleRandom pattern(options_.seed, kPatternKey, labels[i]);
      SampleRandom noise(options_.seed, noise_key_, samples[i]);
      for (float& value : images.subspan(i * elements, elements)) {
        value = static_cast<float>((pattern.Uniform() + noise.Uniform()) / 2);
      }
      Normalize(options_.normalization, options_.shape[0], images.subspan(i * elements, elements));
    }
  }

 private:
  const SyntheticDatasetOptions options_;
  const int64_t size_;
  const uint64_t noise_key_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticDataset(
    const SyntheticDatasetOptions& options, data::Split split) {
  DP_CHECK(!options.shape.empty() && options.classes > 0);
  DP_RETURN_IF_ERROR(CheckNormalization(options.normalization, options.shape));
  return std::make_unique<SyntheticDataset>(options, split);
}

}  // namespace dp::engine
