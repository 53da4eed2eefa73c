#pragma once

#include <optional>
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

// Errors: NotFound the number of the job `before` has become that of another one, `now`: the
// coordinator has lost data, and gives its numbers again.
absl::Status CheckSame(const v1::Job& before, const v1::Job& now);

// Waits for the job to be over, bearing with a coordinator that is away for `patience`. `changed`
// is told of every version of the job that is seen; when it returns false, or `timeout` has passed,
// the job comes back as it is then; as it was when it was heard of last, where nobody answers at
// the end, and `last` is what the caller has heard before. Errors: as CheckSame; as Context::Call,
// once nothing has been heard of the job within `timeout`.
absl::StatusOr<v1::Job> AwaitJob(Context& context, uint64_t id, absl::Duration patience,
                                 absl::Duration timeout,
                                 absl::FunctionRef<bool(const v1::Job&)> changed,
                                 std::optional<v1::Job> last = std::nullopt);

// How long a command that follows a job bears with a coordinator that does not answer.
constexpr absl::Duration kPatience = absl::Minutes(5);

}  // namespace dp::ctl
