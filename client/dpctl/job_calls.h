#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The job that `text` names: a job's id, or a name, of which the latest counts.
// Errors: InvalidArgument no text; NotFound no such job; others as Context::Call.
absl::StatusOr<v1::Job> FindJob(Context& context, const std::string& text);

// All jobs that the request asks for, oldest first, over as many pages as that takes.
// Errors: as Context::Call.
absl::StatusOr<std::vector<v1::Job>> ListJobs(Context& context, v1::ListJobsRequest request);

absl::StatusOr<v1::Job> GetJob(Context& context, uint64_t id);

// Asks for the end of a job, and returns it as it is then.
absl::StatusOr<v1::Job> CancelJob(Context& context, uint64_t id);

// How long to bear with a coordinator that is away: `patience`, but not past `until`, but for the
// time that one answer takes.
absl::Duration PatienceUntil(absl::Time until, const Clock& clock, absl::Duration patience);

// Waits for the job to be over, bearing with a coordinator that is away for `patience`. `changed`
// is told of every version of the job that is seen; when it returns false, or `timeout` has passed,
// the job comes back as it is then. Errors: as Context::Call.
absl::StatusOr<v1::Job> AwaitJob(Context& context, uint64_t id, absl::Duration patience,
                                 absl::Duration timeout,
                                 absl::FunctionRef<bool(const v1::Job&)> changed);

// How long a command that follows a job bears with a coordinator that does not answer.
constexpr absl::Duration kPatience = absl::Minutes(5);

}  // namespace dp::ctl
