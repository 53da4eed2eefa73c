#pragma once

#include <vector>

#include "absl/status/status.h"
#include "client/dpctl/context.h"
#include "dp/v1/job_spec.pb.h"
#include "dp/v1/workers.pb.h"

namespace dp::ctl {

// Makes a number of a command's nprocPerNode where it is gpu, cpu or auto, and the ranks of it. On
// a coordinator's workers: the most that as many of them as the job has nodes can take, `cpu` being
// their slots. Else nothing to do.
// Errors: InvalidArgument there are too few workers, or none with a GPU; as Context::Call.
absl::Status CountRanks(Context& context, v1::JobSpec& spec);

// The same on this machine.
absl::Status CountRanksHere(const Machine& machine, v1::JobSpec& spec);

}  // namespace dp::ctl
