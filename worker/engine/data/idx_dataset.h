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

// Images and labels in the IDX files of MNIST and similar sets: train-images-idx3-ubyte,
// train-labels-idx1-ubyte, and t10k-... for the test set, each plain or with .gz.
// Errors: NotFound names the directory, or both spellings of a file; InvalidArgument wrong contents
// (names file, place and both values), or std not above 0.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const IdxDatasetOptions& options,
                                                        Split split);

}  // namespace dp::engine
