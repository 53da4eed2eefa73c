#include "worker/engine/data/augmented_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/data/sample_random.h"

namespace dp::engine {
namespace {

// Numbers of other purposes differ, as the order of samples.
constexpr uint64_t kAugmentKey = 0x6175676d656e7400;

// Channel after channel, row after row.
struct PlaneView {
  float* values = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
};

void MirrorRows(const PlaneView& plane) {
  for (int64_t row = 0; row < plane.rows; ++row) {
    float* const first = plane.values + row * plane.columns;
    std::reverse(first, first + plane.columns);
  }
}

// Moves the content of a plane down by `down` and right by `right`; what comes in is `fill`.
void ShiftPlane(const PlaneView& plane, int64_t down, int64_t right, float fill,
                std::vector<float>& scratch) {
  scratch.assign(plane.values, plane.values + plane.rows * plane.columns);
  const int64_t begin = std::max<int64_t>(0, right);
  const int64_t end = std::max(begin, std::min(plane.columns, plane.columns + right));
  for (int64_t row = 0; row < plane.rows; ++row) {
    float* const to = plane.values + row * plane.columns;
    std::fill(to, to + plane.columns, fill);
    const int64_t from = row - down;
    if (from < 0 || from >= plane.rows) continue;
    const float* const source = scratch.data() + from * plane.columns - right;
    std::copy(source + begin, source + end, to + begin);
  }
}

class AugmentedDataset : public Dataset {
 public:
  AugmentedDataset(std::unique_ptr<Dataset> base, const AugmentOptions& options,
                   std::vector<float> black)
      : base_(std::move(base)), options_(options), black_(std::move(black)) {}

  int64_t size() const override { return base_->size(); }
  const model::Shape& sample_shape() const override { return base_->sample_shape(); }
  int classes() const override { return base_->classes(); }
  model::Shape target_shape() const override { return base_->target_shape(); }

  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    base_->Gather(samples, images, labels);
  }
  absl::Status Read(const SampleRows& rows) const override {
    DP_RETURN_IF_ERROR(base_->Read(rows));
    const int64_t elements = model::ElementCount(sample_shape());
    std::vector<float> scratch;
    for (size_t i = 0; i < rows.samples.size(); ++i) {
      SampleRandom random(options_.seed ^ kAugmentKey, rows.epoch, rows.samples[i]);
      Change(rows.inputs.data() + i * elements, random, scratch);
    }
    return absl::OkStatus();
  }

 private:
  void Change(float* sample, SampleRandom& random, std::vector<float>& scratch) const {
    const bool mirrored = options_.flip && random.Uniform() < 0.5;
    const int64_t down = Shift(random), right = Shift(random);
    const int64_t rows = sample_shape()[1], columns = sample_shape()[2];
    for (const float black : black_) {
      const PlaneView plane{sample, rows, columns};
      if (mirrored) MirrorRows(plane);
      if (down != 0 || right != 0) ShiftPlane(plane, down, right, black, scratch);
      sample += rows * columns;
    }
  }

  // -padding to padding.
  int64_t Shift(SampleRandom& random) const {
    return options_.padding == 0
               ? 0
               : random.Below(2 * int64_t{options_.padding} + 1) - options_.padding;
  }

  const std::unique_ptr<Dataset> base_;
  const AugmentOptions options_;
  const std::vector<float> black_;  // of each channel
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Augment(std::unique_ptr<Dataset> base,
                                                 const AugmentOptions& options,
                                                 const Normalization& normalization) {
  const model::Shape& shape = base->sample_shape();
  if (shape.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("train.data.augment is for images of channels, rows and columns, but a sample "
                     "has the shape ",
                     model::ShapeText(shape), "; leave it out"));
  }
  if (const model::Shape targets = base->target_shape(); targets.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "train.data.augment changes the inputs alone, but the targets of a sample have "
        "the shape ",
        model::ShapeText(targets),
        " and would not fit any more; leave it out, or give targets of one axis"));
  }
  std::vector<float> black;
  for (int64_t channel = 0; channel < shape[0]; ++channel) {
    black.push_back((0 - OfChannel(normalization.mean, channel, 0)) /
                    OfChannel(normalization.std, channel, 1));
  }
  return std::make_unique<AugmentedDataset>(std::move(base), options, std::move(black));
}

}  // namespace dp::engine
