#include "client/dpctl/job_calls.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/request_id.h"
#include "client/long_poll.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

absl::StatusOr<v1::Job> LatestNamed(Context& context, const std::string& name) {
  v1::ListJobsRequest request;
  request.set_name(name);
  DP_ASSIGN_OR_RETURN(std::vector<v1::Job> jobs, ListJobs(context, std::move(request)));
  if (!jobs.empty()) return std::move(jobs.back());
  return absl::NotFoundError(absl::StrCat(
      "no job has the name or id '", absl::Utf8SafeCEscape(name), "'; 'dpctl ps -a' lists all"));
}

}  // namespace

absl::StatusOr<v1::Job> GetJob(Context& context, uint64_t id) {
  v1::GetJobRequest request;
  request.set_job(id);
  DP_ASSIGN_OR_RETURN(v1::GetJobResponse response, context.Call(&v1::Jobs::Stub::Get, request));
  return std::move(*response.mutable_job());
}

absl::StatusOr<std::vector<v1::Job>> ListJobs(Context& context, v1::ListJobsRequest request) {
  std::vector<v1::Job> jobs;
  v1::ListJobsResponse page;
  do {
    DP_ASSIGN_OR_RETURN(page, context.Call(&v1::Jobs::Stub::List, request));
    if (request.has_finished_for() && !page.has_finished_for()) {
      return absl::UnimplementedError(absl::StrCat(
          "coordinator at ", context.flags().coordinator,
          ": it is of an earlier release than this program, and cannot list jobs by their end; "
          "upgrade it first"));
    }
    absl::c_move(*page.mutable_jobs(), std::back_inserter(jobs));
    if (!jobs.empty()) request.set_after(jobs.back().id());
  } while (page.more());
  return jobs;
}

absl::StatusOr<v1::Job> FindJob(Context& context, const std::string& text) {
  // For the coordinator an empty name matches every job.
  if (text.empty()) return absl::InvalidArgumentError("a JOB is an id or a name; '' is neither");
  if (text.front() == '-')
    return absl::InvalidArgumentError(
        absl::StrCat("a JOB is an id or a name; '", absl::Utf8SafeCEscape(text), "' is neither"));
  uint64_t id = 0;
  if (absl::SimpleAtoi(text, &id)) {
    absl::StatusOr<v1::Job> job = GetJob(context, id);
    if (!absl::IsNotFound(job.status())) return job;
  }
  return LatestNamed(context, text);
}

absl::StatusOr<v1::Job> CancelJob(Context& context, uint64_t id) {
  v1::CancelRequest request;
  request.set_job(id);
  DP_ASSIGN_OR_RETURN(v1::CancelResponse response, context.Call(&v1::Jobs::Stub::Cancel, request));
  return std::move(*response.mutable_job());
}

absl::Status RemoveJob(Context& context, const v1::Job& job, bool with_files) {
  v1::RemoveRequest request;
  request.set_with_files(with_files);
  request.set_job(job.id());
  if (job.has_submitted_at()) *request.mutable_submitted_at() = job.submitted_at();
  request.set_user(context.surroundings().user);
  return context.Call(&v1::Jobs::Stub::Remove, request).status();
}

absl::Status CheckSame(const v1::Job& before, const v1::Job& now) {
  if (FromProto(before.submitted_at()) == FromProto(now.submitted_at())) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the coordinator knows job ", before.id(), " (",
                                          before.spec().name(),
                                          ") no longer, and has given its number to another one (",
                                          now.spec().name(), "); it has lost data (see its log)"));
}

absl::Status WhileFollowed(uint64_t id, const absl::Status& error) {
  if (!absl::IsNotFound(error)) return error;
  return absl::NotFoundError(absl::StrCat(
      "job ", id,
      " was removed while dpctl followed it: by 'dpctl rm' or 'dpctl prune', by its "
      "ttlAfterFinish, or for room; see job_removed or job_forgotten in the coordinator's log; or "
      "your role was changed, and no longer shows it ('dpctl whoami')"));
}

absl::StatusOr<v1::Job> AwaitJob(Context& context, uint64_t id, absl::Duration patience,
                                 absl::Duration timeout,
                                 absl::FunctionRef<bool(const v1::Job&)> changed,
                                 std::optional<v1::Job> last) {
  const Clock& clock = context.surroundings().clock;
  const absl::Time until = clock.Now() + timeout;
  v1::WatchJobRequest request;
  request.set_job(id);
  while (true) {
    absl::StatusOr<v1::WatchJobResponse> response =
        context.CallFor(std::min(patience, until - clock.Now()), [&](absl::Duration) {
          const absl::Duration left = std::max(until - clock.Now(), absl::ZeroDuration());
          const absl::Duration poll = std::min(left, client::kLongPoll);
          *request.mutable_timeout() = ToProto(poll);
          return context.coordinator().Call(&v1::Jobs::Stub::Watch, request,
                                            client::LongPollDeadline(poll, left, last.has_value()));
        });
    const bool over = clock.Now() >= until;
    // The last answer is late, or the coordinator is out of reach.
    if (!response.ok() && over && last && ExitCodeOf(response.status()) == kUnreachable)
      return *std::move(last);
    if (!response.ok()) return last ? WhileFollowed(id, response.status()) : response.status();
    v1::Job& job = *response->mutable_job();
    if (last) DP_RETURN_IF_ERROR(CheckSame(*last, job));
    const bool seen = job.version() == request.since();
    if (Finished(job.state()) || (!seen && !changed(job)) || over) return std::move(job);
    request.set_since(job.version());
    last = std::move(job);
  }
}

}  // namespace dp::ctl
