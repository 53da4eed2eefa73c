#pragma once

#include "absl/status/status.h"
#include "client/job/job_check.h"
#include "client/job/job_file.h"

namespace dp::client {

// Checks the values of the section `train`, and its model against the data. Errors: as CheckJob.
absl::Status CheckTrainSection(const JobFile& job, const SampleShape& sample_shape);

}  // namespace dp::client
