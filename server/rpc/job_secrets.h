#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/security/sealing_key.h"
#include "dp/v1/jobs.pb.h"
#include "dp/v1/workers.pb.h"
#include "server/access/caller.h"
#include "server/core/job.h"

// The secrets of jobs on their way through the coordinator. They are sealed before a command has
// them, so the machine, the journal and every view of a job know their names only. They are opened
// in one place: in the assignment of a worker that runs a rank of the job. Any thread.

namespace dp::server {

// Whether the caller has proven to be a worker. Nobody else gets the values of secrets,
// administrators included.
bool MayHaveSecrets(const Caller& caller);

// The secrets of a request whose spec was checked, sealed for its request id. `key`: absent without
// TLS.
// Errors: InvalidArgument as CheckSecrets; FailedPrecondition they came in plain text.
absl::StatusOr<std::vector<core::SealedSecret>> SealSecrets(
    const v1::SubmitRequest& request, const std::optional<security::SealingKey>& key,
    const Caller& caller);

// Adds the secrets of the job to the rank of a worker, or why there are none.
void OpenSecrets(const core::Job& job, const std::optional<security::SealingKey>& key,
                 const Caller& caller, v1::AssignedRank* rank);

}  // namespace dp::server
