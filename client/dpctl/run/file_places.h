#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/dpctl/view/file_view.h"
#include "dp/v1/checkpoints.pb.h"
#include "dp/v1/job_spec.pb.h"
#include "dp/v1/jobs.pb.h"
#include "dp/v1/workers.pb.h"

// Where files of a job are, and the job that removes them there (docs/checkpoints.md). Pure.

namespace dp::ctl {

// Whether dp itself may have written checkpoints or weights for the job: a train job that names
// some, and was placed.
bool MayHaveFiles(const v1::Job& job);

// The files that stay, whatever is on the hosts. Those on the record of a command job stay, because
// its own program wrote them. A trace stays, because it does not say whose it is.
std::vector<FileOnWorker> FilesThatStay(const v1::Job& job,
                                        const v1::ListCheckpointsResponse& checkpoints);

// The workers on whose hosts rank 0 wrote: that of the last generation, and one on each of `hosts`.
// On these rank 0 ran in earlier generations. If a worker cannot be used, another one on its host
// takes its place. `instead`: this worker alone, which sees all files; empty: none was named.
// Errors: FailedPrecondition names the worker or host that cannot be used, why, the paths and the
// remedy; NotFound no worker is called `instead`.
absl::StatusOr<std::vector<std::string>> WorkersOfFiles(const v1::Job& job,
                                                        const std::vector<std::string>& hosts,
                                                        const v1::ListWorkersResponse& workers,
                                                        const std::string& instead);

// The job that removes the files of `job` on `worker`.
v1::JobSpec RemovalSpec(const v1::Job& job, const std::string& worker, bool dry_run);

// Paths on the record of which `files` has neither the path itself nor a file below it.
std::vector<std::string> NotFoundAmong(const std::vector<FileOnWorker>& files, const v1::Job& job,
                                       const v1::ListCheckpointsResponse& checkpoints);

}  // namespace dp::ctl
