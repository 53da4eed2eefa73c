#pragma once

#include "absl/status/status.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/field_check.h"

namespace dp {

// Whether samples of the kind are tokens; all others are numbers.
bool IsText(const v1::DataSpec& data);

// Whether samples have numbers to predict instead of classes.
bool HasTargets(const v1::DataSpec& data);

// Checks `train.data` of a job whose defaults are filled in. Pure.
// Errors: as CheckJob.
absl::Status CheckDataSection(const v1::DataSpec& data, const FieldOrigins& origins);

}  // namespace dp
