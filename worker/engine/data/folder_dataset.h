#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/data/sample_set.h"
#include "worker/engine/data/array_dataset.h"
#include "worker/engine/data/dataset.h"

namespace dp::engine {

// Takes a random part of each image instead of its middle.
struct ResizedCropOptions {
  double area_min = 1;  // share of the image
  uint64_t seed = 0;
};

struct FolderDatasetOptions {
  std::string dir;
  int64_t rows = 0;
  int64_t columns = 0;
  int channels = 3;
  int classes = 0;  // 0: as many as there are folders
  Normalization normalization;
  std::optional<ResizedCropOptions> resized_crop;  // in Read; Gather takes the middle
};

// PNG and JPEG images in folders (base/data/image_folder.h). Each Read decodes its samples anew, so
// no more than a batch is in memory.
// Errors: those of ListImageFolder and CheckNormalization; InvalidArgument more folders than
// classes. Read: those of ReadImage.
absl::StatusOr<std::unique_ptr<Dataset>> OpenFolderDataset(const FolderDatasetOptions& options,
                                                           data::Split split);

}  // namespace dp::engine
