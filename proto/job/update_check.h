#pragma once

#include "absl/status/status.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/field_check.h"

namespace dp {

// Checks the fields of the section `train` that say how a step changes the weights: the optimizer
// the schedule of its learning rate, clipping, and groups of weights. Errors: as CheckJob.
absl::Status CheckUpdates(const v1::TrainSpec& train, const FieldOrigins& origins);

}  // namespace dp
