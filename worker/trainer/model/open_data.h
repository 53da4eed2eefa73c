#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/data/dataset.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

struct Datasets {
  std::unique_ptr<engine::Dataset> train;
  std::unique_ptr<engine::Dataset> test;
};

// Opens the sets for training and for the test. Only the former is augmented. With
// train.data.validation, both are parts of the training set.
// Errors: those of the sets, SplitSamples and Augment.
absl::StatusOr<Datasets> OpenDatasets(const TrainingPlan& plan);

// Opens the set for the test alone, which reads no training set unless the test is a part of it.
// Errors: as OpenDatasets.
absl::StatusOr<std::unique_ptr<engine::Dataset>> OpenTestSet(const TrainingPlan& plan);

}  // namespace dp::trainer
