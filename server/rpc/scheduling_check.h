#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/job_spec.pb.h"
#include "server/core/command.h"

namespace dp::server {

// Checks what a job's spec says of when and where the job may run. Pure; any thread.
// Errors: InvalidArgument names the field, its value and what is allowed.
absl::StatusOr<core::Scheduling> CheckScheduling(const v1::JobSpec& spec);

}  // namespace dp::server
