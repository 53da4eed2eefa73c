#pragma once

#include "absl/status/status.h"
#include "client/dpctl/context.h"
#include "dp/v1/job_spec.pb.h"
#include "dp/v1/workers.pb.h"

// Checks whether this machine has the GPUs that a job needs: on a separate cluster the job would
// wait for them for ever. Pure, except for questions to the machine.

namespace dp::ctl {

// Whether the job's ranks compute on GPUs only.
bool TrainsOnGpus(const v1::JobSpec& spec);

// Call it before the cluster of `workers` is started. Errors: FailedPrecondition fewer GPUs than
// ranks need, or several workers, which would assign the same GPUs twice.
absl::Status CheckLocalGpus(const Machine& machine, const v1::JobSpec& spec, int workers);

// Call it once the cluster runs, for a job that trains on GPUs. Errors: FailedPrecondition no
// trainer can use GPUs.
absl::Status CheckLocalTrainer(const v1::ListWorkersResponse& workers);

}  // namespace dp::ctl
