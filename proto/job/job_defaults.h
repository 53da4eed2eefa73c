#pragma once

#include "dp/v1/job_spec.pb.h"
#include "proto/job/field_check.h"

namespace dp {

// Fills in the fields that the owner left out (docs/job-file.md has the values). A given field
// stays as it is. In a job file that may be a wrong zero, which CheckJob finds. dpctl fills them in
// to show them; the coordinator records them, so that no later default changes what a job does.
// Pure; a second call changes nothing.
void FillDefaults(const FieldOrigins& origins, v1::JobSpec& spec);

}  // namespace dp
