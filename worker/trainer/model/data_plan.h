#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/job_spec.pb.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// The meaning of `train.data` of a job, with all defaults filled in.
// Errors: InvalidArgument names the field.
absl::StatusOr<DataPlan> PlanData(const v1::TrainSpec& train);

}  // namespace dp::trainer
