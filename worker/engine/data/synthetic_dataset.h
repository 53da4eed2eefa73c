#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/data/sample_set.h"
#include "worker/engine/data/array_dataset.h"
#include "worker/engine/data/dataset.h"

namespace dp::engine {

struct SyntheticDatasetOptions {
  model::Shape shape;
  int classes = 1;
  int64_t samples = 1;
  int64_t test_samples = 1;
  uint64_t seed = 0;
  Normalization normalization;
};

// Samples that a formula gives: sample i is of class i modulo the classes. Its values are the sum
// of two uniform draws of 0 to 0.5, of its class's pattern and of its own noise. A model can
// therefore learn the classes. Nothing is stored. Errors: those of CheckNormalization.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticDataset(
    const SyntheticDatasetOptions& options, data::Split split);

}  // namespace dp::engine
