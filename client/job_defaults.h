#pragma once

#include "client/job_file.h"

namespace dp::client {

// Fills in what the owner left out (docs/job-file.md has the values). A field that was given stays
// as it is, a wrong zero too: CheckJob finds it. Pure.
void FillDefaults(JobFile& job);
}  // namespace dp::client
