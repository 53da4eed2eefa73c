#pragma once

#include "absl/status/status.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/field_check.h"

namespace dp {

// Checks train.strategy, and the fields of the job that do not go with it. The model has no faults.
// Pure.
// Errors: InvalidArgument as FieldOrigins::Error.
absl::Status CheckStrategy(const v1::JobSpec& spec, const FieldOrigins& origins);

}  // namespace dp
