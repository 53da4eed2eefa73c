#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/job_spec.pb.h"
#include "server/core/command.h"

namespace dp::server {

// Checks what the coordinator itself depends on, and fills in the defaults that all readers of the
// spec must agree on. Layers and data are checked by dpctl and the trainer, which know them. Pure.
// Errors: InvalidArgument names the field as the job file does, its value and what is allowed.
absl::StatusOr<core::JobSpec> CheckJobSpec(const v1::JobSpec& spec);

}  // namespace dp::server
