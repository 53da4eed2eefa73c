#pragma once

#include <vector>

#include "absl/status/status.h"
#include "client/dpctl/context.h"
#include "client/job/job_file.h"
#include "dp/v1/workers.pb.h"

namespace dp::ctl {

// Replaces nprocPerNode of gpu, cpu or auto by a number, and sets the ranks to match. The number is
// the most that as many of the coordinator's workers as the job has nodes can take; `cpu` counts
// their slots. A no-op for a number.
// Errors: InvalidArgument there are too few workers, or none with a GPU; as Context::Call.
absl::Status CountRanks(Context& context, client::JobFile& job);

// The same on this machine; `cpu` counts its CPUs.
absl::Status CountRanksHere(const Machine& machine, client::JobFile& job);

}  // namespace dp::ctl
