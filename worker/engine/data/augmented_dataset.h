#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/data/array_dataset.h"
#include "worker/engine/data/dataset.h"

namespace dp::engine {

// Random changes of images. They depend on the seed, the epoch and the sample's number alone.
struct AugmentOptions {
  bool flip = false;  // mirror half of the samples, left to right
  int padding = 0;    // pixels of black around a sample, of which a part of its size is taken
  uint64_t seed = 0;
};

// The samples of `base`, changed by Read; Gather gives them as they are. Devices do not keep them.
// `normalization` is that of `base` and tells what black is.
// Errors: InvalidArgument a sample has no channels, rows and columns, or its targets have several
// axes, which would have to change as well.
absl::StatusOr<std::unique_ptr<Dataset>> Augment(std::unique_ptr<Dataset> base,
                                                 const AugmentOptions& options,
                                                 const Normalization& normalization);

}  // namespace dp::engine
