#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/engine/data/dataset.h"

namespace dp::engine {

enum class Split { kTrain, kTest };

struct IdxDatasetOptions {
  std::string dir;
  int classes = 10;
  // Pixels are mapped to (x / 255 - mean) / std.
  float mean = 0;
  float std = 1;
};

// Images and labels in the IDX files of MNIST and its kin: train-images-idx3-ubyte,
// train-labels-idx1-ubyte, and t10k-... for the test set, each plain or with .gz.
// Errors: NotFound for the directory or a file (names both spellings); InvalidArgument for wrong
// contents, naming file, place, and both values; InvalidArgument when std is not above 0.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const IdxDatasetOptions& options,
                                                        Split split);

}  // namespace dp::engine
