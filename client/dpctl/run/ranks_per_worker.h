#pragma once

#include "absl/status/status.h"
#include "client/dpctl/context.h"
#include "client/job/job_file.h"

namespace dp::ctl {

// Replaces nprocPerNode of gpu, cpu or auto by a number, and sets the ranks to match. GPUs are
// counted, or slots for `cpu`, on the ready workers that satisfy the job's constraints. For a job
// of N nodes the N-th largest count is taken. A no-op for a number.
// Errors: InvalidArgument there are too few workers, or none with a GPU; as Context::Call.
absl::Status CountRanks(Context& context, client::JobFile& job);

// The same on this machine; `cpu` counts its CPUs. Errors: InvalidArgument it has no GPU.
absl::Status CountRanksHere(const Machine& machine, client::JobFile& job);

}  // namespace dp::ctl
