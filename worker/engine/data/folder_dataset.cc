#include "worker/engine/data/folder_dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/data/image_codec.h"
#include "base/data/image_folder.h"
#include "base/data/image_resize.h"
#include "base/status.h"
#include "worker/engine/data/sample_random.h"

namespace dp::engine {
namespace {

// Numbers of other purposes differ, as the order of samples.
constexpr uint64_t kResizedCropKey = 0x726573697a656400;
// How often a part is drawn that does not fit into the image, as in torchvision.
constexpr int kCropTries = 10;
constexpr double kRatioMin = 3.0 / 4, kRatioMax = 4.0 / 3;  // of columns to rows

// A random part of the image, with a random area and ratio. Without luck, the middle.
data::ImageBox RandomPart(const data::Image& image, const FolderDatasetOptions& options,
                          SampleRandom& random) {
  const auto rows = static_cast<double>(image.rows);
  const auto columns = static_cast<double>(image.columns);
  for (int i = 0; i < kCropTries; ++i) {
    const double area = rows * columns * random.Uniform(options.resized_crop->area_min, 1);
    const double ratio = std::exp(random.Uniform(std::log(kRatioMin), std::log(kRatioMax)));
    const double wide = std::round(std::sqrt(area * ratio));
    const double high = std::round(std::sqrt(area / ratio));
    if (wide < 1 || high < 1 || wide > columns || high > rows) continue;
    return {.row = static_cast<double>(random.Below(static_cast<int64_t>(rows - high) + 1)),
            .column = static_cast<double>(random.Below(static_cast<int64_t>(columns - wide) + 1)),
            .rows = high,
            .columns = wide};
  }
  return MiddleOf(image, options.rows, options.columns);
}

class FolderDataset : public Dataset {
 public:
  FolderDataset(data::ImageFolder folder, const FolderDatasetOptions& options)
      : folder_(std::move(folder)),
        options_(options),
        shape_{options.channels, options.rows, options.columns} {}

  int64_t size() const override { return static_cast<int64_t>(folder_.files.size()); }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override {
    return options_.classes > 0 ? options_.classes : static_cast<int>(folder_.classes.size());
  }

  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    const absl::Status read =
        ReadAll({.samples = samples, .inputs = images, .labels = labels}, false);
    DP_CHECK(read.ok());
  }
  absl::Status Read(const SampleRows& rows) const override {
    return ReadAll(rows, options_.resized_crop.has_value());
  }

 private:
  absl::Status ReadAll(const SampleRows& rows, bool at_random) const {
    const int64_t elements = model::ElementCount(shape_);
    DP_CHECK(rows.inputs.size() >= rows.samples.size() * elements);
    for (size_t i = 0; i < rows.samples.size(); ++i) {
      const int64_t sample = rows.samples[i];
      DP_CHECK(sample >= 0 && sample < size());
      DP_ASSIGN_OR_RETURN(const data::Image image,
                          data::ReadImage(folder_.files[sample], options_.channels));
      data::ImageBox box = MiddleOf(image, options_.rows, options_.columns);
      if (at_random) {
        SampleRandom random(options_.resized_crop->seed ^ kResizedCropKey, rows.epoch, sample);
        box = RandomPart(image, options_, random);
      }
      const absl::Span<float> to = rows.inputs.subspan(i * elements, elements);
      ResizeInto(image, box, options_.rows, options_.columns, to);
      for (float& value : to) value /= 255.0f;
      Normalize(options_.normalization, shape_[0], to);
      rows.labels[i] = folder_.labels[sample];
    }
    return absl::OkStatus();
  }

  const data::ImageFolder folder_;
  const FolderDatasetOptions options_;
  const model::Shape shape_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenFolderDataset(const FolderDatasetOptions& options,
                                                           data::Split split) {
  DP_RETURN_IF_ERROR(
      CheckNormalization(options.normalization, {options.channels, options.rows, options.columns}));
  DP_ASSIGN_OR_RETURN(data::ImageFolder folder, data::ListImageFolder(options.dir, split));
  const auto folders = static_cast<int>(folder.classes.size());
  if (options.classes > 0 && folders > options.classes) {
    return absl::InvalidArgumentError(absl::StrCat("data directory ", options.dir, " has ", folders,
                                                   " classes, but train.data.classes is ",
                                                   options.classes, "; make both the same"));
  }
  return std::make_unique<FolderDataset>(std::move(folder), options);
}

}  // namespace dp::engine
