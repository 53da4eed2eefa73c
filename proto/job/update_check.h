#pragma once

#include "absl/status/status.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/field_check.h"

namespace dp {

// Checks the fields of the section `train` that say how a step changes the weights. These are the
// optimizer, the schedule of its learning rate, clipping, groups of weights, and the average of the
// weights. Errors: as CheckJob.
absl::Status CheckUpdates(const v1::TrainSpec& train, const FieldOrigins& origins);

}  // namespace dp
