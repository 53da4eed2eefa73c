#pragma once

#include "absl/status/status.h"
#include "client/dpctl/context.h"
#include "dp/v1/job_spec.pb.h"
#include "dp/v1/workers.pb.h"

// What a job that needs GPUs finds on this machine: on a cluster of its own it would wait for ever
// for what is not here. Pure, but for asking the machine.

namespace dp::ctl {

// Whether its ranks compute on GPUs or not at all.
bool TrainsOnGpus(const v1::JobSpec& spec);

// Before its cluster of `workers` is started. Errors: FailedPrecondition there are fewer GPUs than
// its ranks need, or several workers would give them out.
absl::Status CheckLocalGpus(const Machine& machine, const v1::JobSpec& spec, int workers);

// When it is there, for one that trains on GPUs. Errors: FailedPrecondition no trainer can.
absl::Status CheckLocalTrainer(const v1::ListWorkersResponse& workers);

}  // namespace dp::ctl
