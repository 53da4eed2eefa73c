#pragma once

#include "absl/status/status.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/field_check.h"

namespace dp {

// Checks train.strategy.ps, and the fields of the training that do not go with it. Pure.
// Errors: InvalidArgument as FieldOrigins::Error.
absl::Status CheckPs(const v1::TrainSpec& train, const FieldOrigins& origins);

}  // namespace dp
