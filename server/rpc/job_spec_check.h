#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/job_spec.pb.h"
#include "server/core/command.h"

namespace dp::server {

// Fills in the defaults, checks the job by the rules that dpctl also uses (proto/job/job_check.h),
// and returns what the machine decides by. A number that is 0 counts as not given, since a message
// cannot tell the two apart. Pure; any thread.
// Errors: InvalidArgument names the field as the job file does, its value and what is allowed.
absl::StatusOr<core::JobSpec> CheckJobSpec(const v1::JobSpec& sent);

}  // namespace dp::server
