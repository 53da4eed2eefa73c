#include "worker/engine/data/idx_dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/data/idx.h"

namespace dp::engine {
namespace {

// The value of each byte. The map is the same for all pixels, so 256 results are enough.
using PixelTable = std::array<float, 256>;

PixelTable Normalize(float mean, float std) {
  PixelTable table;
  for (int pixel = 0; pixel < 256; ++pixel) {
    table[pixel] = (static_cast<float>(pixel) / 255.0f - mean) / std;
  }
  return table;
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(IdxArray images, std::vector<uint8_t> labels, const IdxDatasetOptions& options)
      : shape_{1, images.extents[1], images.extents[2]},
        images_(std::move(images.bytes)),
        labels_(std::move(labels)),
        options_(options),
        pixels_(Normalize(options.mean, options.std)) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override { return options_.classes; }
  Storage storage() const override {
    return StoredImages{images_, labels_, options_.mean, options_.std};
  }

  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    const int64_t pixels = model::ElementCount(shape_);
    DP_CHECK(images.size() >= samples.size() * pixels && labels.size() >= samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      DP_CHECK(samples[i] >= 0 && samples[i] < size());
      const uint8_t* from = images_.data() + samples[i] * pixels;
      std::transform(from, from + pixels, images.data() + i * pixels,
                     [this](uint8_t pixel) { return pixels_[pixel]; });
      labels[i] = labels_[samples[i]];
    }
  }

 private:
  const model::Shape shape_;
  const std::vector<uint8_t> images_;
  const std::vector<uint8_t> labels_;
  const IdxDatasetOptions options_;
  const PixelTable pixels_;
};

absl::StatusOr<std::string> Find(const std::string& dir, const std::string& name) {
  std::error_code error;
  for (const char* ending : {"", ".gz"}) {
    const std::string path = absl::StrCat(dir, "/", name, ending);
    if (std::filesystem::exists(path, error)) return path;
  }
  return absl::NotFoundError(
      absl::StrCat("data directory ", dir, " has neither ", name, " nor ", name, ".gz"));
}

absl::StatusOr<IdxArray> ReadIn(const std::string& dir, const std::string& name, int rank) {
  DP_ASSIGN_OR_RETURN(const std::string path, Find(dir, name));
  return ReadIdx(path, rank);
}

absl::Status CheckLabels(const std::string& file, const std::vector<uint8_t>& labels, int classes) {
  const auto bad = std::find_if(labels.begin(), labels.end(),
                                [classes](uint8_t label) { return label >= classes; });
  if (bad == labels.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": label ", *bad, " of sample ", bad - labels.begin(),
                   " is out of range, labels are 0 to ", classes - 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const IdxDatasetOptions& options,
                                                        Split split) {
  if (!(options.std > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("std is ", options.std, "; it must be above 0"));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(options.dir, error)) {
    return absl::NotFoundError(absl::StrCat(
        "data directory ", options.dir,
        " does not exist; it must be there on the host of every worker that runs a rank"));
  }
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  const std::string images_name = prefix + "-images-idx3-ubyte";
  const std::string labels_name = prefix + "-labels-idx1-ubyte";
  DP_ASSIGN_OR_RETURN(IdxArray images, ReadIn(options.dir, images_name, 3));
  DP_ASSIGN_OR_RETURN(IdxArray labels, ReadIn(options.dir, labels_name, 1));
  if (images.extents[0] != labels.extents[0]) {
    return absl::InvalidArgumentError(absl::StrCat("in ", options.dir, ", ", images_name, " has ",
                                                   images.extents[0], " samples, but ", labels_name,
                                                   " has ", labels.extents[0]));
  }
  DP_ASSIGN_OR_RETURN(const std::string labels_file, Find(options.dir, labels_name));
  DP_RETURN_IF_ERROR(CheckLabels(labels_file, labels.bytes, options.classes));
  return std::make_unique<IdxDataset>(std::move(images), std::move(labels.bytes), options);
}

}  // namespace dp::engine
