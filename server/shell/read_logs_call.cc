#include "server/shell/read_logs_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/job_registry.h"
#include "server/shell/call.h"
#include "server/shell/convert_logs.h"
#include "server/shell/convert_values.h"

namespace dp::server {

ReadLogsCall::ReadLogsCall(Driver& driver, LogThread& logs, grpc::CallbackServerContext& context,
                           const v1::ReadLogsRequest& request, v1::ReadLogsResponse& response)
    : driver_(driver),
      logs_(logs),
      context_(context),
      request_(request),
      response_(response),
      ticket_(driver.NewTicket()) {}

void ReadLogsCall::Start() {
  FinishOnError(this, driver_.Ask([this](const absl::Status& status, const View& view) {
    FinishOnError(this, status.ok() ? Check(view) : status);
  }));
}

absl::Status ReadLogsCall::Check(const View& view) {
  DP_ASSIGN_OR_RETURN(query_, FromProto(request_));
  deadline_ = view.now + BoundedWait(request_.timeout());
  return ReadPage(view);
}

absl::Status ReadLogsCall::ReadPage(const View& view) {
  const core::Job* job = view.coordinator.job(JobId(request_.job()));
  if (job == nullptr) {
    return core::UnknownJob(JobId(request_.job()));
  }
  SetHeader(view, &response_);
  query_.finished = Over(*job);
  time_left_ = deadline_ - view.now;
  return logs_.Read(job->id, query_, [this](absl::StatusOr<LogPage> page) {
    FinishOnError(this, HasRead(std::move(page)));
  });
}

bool ReadLogsCall::Over(const core::Job& job) const {
  const bool left_behind = query_.generation.valid() && query_.generation < job.generation;
  return job.terminal() || left_behind;
}

absl::Status ReadLogsCall::HasRead(absl::StatusOr<LogPage> page) {
  if (!page.ok()) return page.status();
  if (context_.IsCancelled()) return EndOfWait(Waiters::Wake::kCancelled);
  const bool nothing_yet = page->chunks.empty() && !query_.finished && !query_.without_lines;
  if (nothing_yet && time_left_ > absl::ZeroDuration()) return AwaitMore(page->version);
  Answer(*std::move(page));
  return absl::OkStatus();
}

absl::Status ReadLogsCall::AwaitMore(uint64_t version) {
  const uint64_t job = request_.job();
  return driver_.Wait(
      ticket_,
      {{.kind = core::Topic::Kind::kLogs, .id = job}, {.kind = core::Topic::Kind::kJob, .id = job}},
      time_left_,
      [this, version](Waiters::Wake wake, const View& view) { return Woken(wake, view, version); });
}

bool ReadLogsCall::Woken(Waiters::Wake wake, const View& view, uint64_t version) {
  if (wake != Waiters::Wake::kChanged && wake != Waiters::Wake::kDeadline) {
    Finish(ToGrpc(EndOfWait(wake)));
    return true;
  }
  const JobId id(request_.job());
  const core::Job* job = view.coordinator.job(id);
  const auto logs = view.log_versions.find(id);
  const bool more = logs != view.log_versions.end() && logs->second > version;
  const bool ended = job == nullptr || Over(*job);
  if (wake == Waiters::Wake::kChanged && !more && !ended) return false;
  FinishOnError(this, ReadPage(view));
  return true;
}

void ReadLogsCall::Answer(LogPage page) {
  response_.set_finished(query_.finished && page.exhausted);
  for (LogChunk& chunk : page.chunks) *response_.add_chunks() = ToProto(std::move(chunk));
  for (const LogPosition& position : page.next) *response_.add_next() = ToProto(position);
  for (const OutstandingOutput& each : page.outstanding) {
    *response_.add_outstanding() = ToProto(each);
  }
  response_.set_outstanding_ranks(static_cast<int>(page.outstanding_ranks));
  Finish(grpc::Status::OK);
}

}  // namespace dp::server
