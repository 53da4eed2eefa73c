#pragma once

#include "client/job/job_file.h"

namespace dp::client {

// Fills in the fields that the owner left out (docs/job-file.md has the values). A given field
// stays as it is, even a wrong zero, which CheckJob finds. Pure.
void FillDefaults(JobFile& job);
}  // namespace dp::client
