#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The job that `text` names: an id, or a name, which stands for the latest job of that name.
// Errors: InvalidArgument no text; NotFound no such job; others as Context::Call.
absl::StatusOr<v1::Job> FindJob(Context& context, const std::string& text);

// All jobs that match the request, oldest first, from as many pages as needed.
// Errors: as Context::Call.
absl::StatusOr<std::vector<v1::Job>> ListJobs(Context& context, v1::ListJobsRequest request);

absl::StatusOr<v1::Job> GetJob(Context& context, uint64_t id);

// Cancels a job, and returns the job as it is then.
absl::StatusOr<v1::Job> CancelJob(Context& context, uint64_t id);

// Removes a job that is over from the coordinator's record, with its output. `with_files`: its
// files were removed before.
absl::Status RemoveJob(Context& context, const v1::Job& job, bool with_files = false);

// Errors: NotFound the number of the job `before` now belongs to another job, `now`: the
// coordinator has lost data and reuses its numbers.
absl::Status CheckSame(const v1::Job& before, const v1::Job& now);

// The error of a call about a job that dpctl has seen on record. NotFound then says that the job
// was removed since, or that the caller's role changed between two calls. Other errors stay.
absl::Status WhileFollowed(uint64_t id, const absl::Status& error);

// Waits for the job to be over; tolerates an absent coordinator for `patience`. Calls `changed`
// with every version of the job that it sees. Returns the job early when `changed` returns false or
// `timeout` has passed. If `timeout` has passed and the coordinator does not answer, returns the
// job as last seen; `last` is how the caller saw it before. Errors: as CheckSame, WhileFollowed and
// Context::Call.
absl::StatusOr<v1::Job> AwaitJob(Context& context, uint64_t id, absl::Duration patience,
                                 absl::Duration timeout,
                                 absl::FunctionRef<bool(const v1::Job&)> changed,
                                 std::optional<v1::Job> last = std::nullopt);

// How long a command that follows a job tolerates a coordinator that does not answer.
constexpr absl::Duration kPatience = absl::Minutes(5);

}  // namespace dp::ctl
