#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/model/shape_check.h"
#include "worker/trainer/model/open_data.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// The plan's layers with their shapes. Checks them against both data sets, with the plan's groups,
// and that there is something to train. For a rank that does not wait for others yet. Pure.
// Errors: InvalidArgument names what does not fit, both values and a remedy.
absl::StatusOr<std::vector<model::CheckedLayer>> FitTraining(const TrainingPlan& plan,
                                                             const Datasets& data);

}  // namespace dp::trainer
