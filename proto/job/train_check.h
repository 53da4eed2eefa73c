#pragma once

#include "absl/status/status.h"
#include "proto/job/job_check.h"

namespace dp {

// Checks the values of the section `train`, and its model against the data. Errors: as CheckJob.
absl::Status CheckTrainSection(const v1::JobSpec& spec, const FieldOrigins& origins,
                               const FormOfSamples& form_of_samples);

}  // namespace dp
