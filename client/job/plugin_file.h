#pragma once

#include "absl/status/status.h"
#include "client/job/job_file.h"

namespace dp::client {

// Checks the libraries of the job's plug-ins as far as this host has them. It reads their first
// bytes, and runs nothing of them. `ranks_run_here`: they must be here. Blocks on the file system.
// Errors: InvalidArgument names the field, the file, and what is wrong with the file.
absl::Status CheckPluginFiles(const JobFile& job, bool ranks_run_here);

}  // namespace dp::client
