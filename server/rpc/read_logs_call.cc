#include "server/rpc/read_logs_call.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_logs.h"
#include "server/core/job_registry.h"
#include "server/rpc/call.h"

namespace dp::server {

ReadLogsCall::ReadLogsCall(const Admission& admission, LogThread& logs, PageBytes& pages,
                           grpc::CallbackServerContext& context, grpc::ByteBuffer& response)
    : admission_(admission),
      logs_(logs),
      pages_(pages),
      context_(context),
      response_(response),
      ticket_(admission.NewTicket()) {}

void ReadLogsCall::Start(const grpc::ByteBuffer& request) {
  grpc::ByteBuffer bytes(request);  // shares the memory
  const grpc::Status parsed =
      grpc::SerializationTraits<v1::ReadLogsRequest>::Deserialize(&bytes, &request_);
  if (!parsed.ok()) return Finish(parsed);
  admission_ = admission_.About(AccessObject::Of(JobId(request_.job())));
  FinishOnError(this, admission_.Ask([this](const absl::Status& status, const View& view) {
    FinishOnError(this, status.ok() ? Check(view) : status);
  }));
}

absl::Status ReadLogsCall::Check(const View& view) {
  DP_ASSIGN_OR_RETURN(query_, FromProto(request_));
  request_.clear_from();  // one per stream of a large job; the query has them
  deadline_ = view.now + BoundedWait(request_.timeout());
  return ReadPage(view);
}

absl::Status ReadLogsCall::ReadPage(const View& view) {
  const core::Job* job = view.coordinator.job(JobId(request_.job()));
  if (job == nullptr) {
    return core::UnknownJob(JobId(request_.job()));
  }
  SetHeader(view, &header_);
  query_.finished = Over(*job);
  time_left_ = deadline_ - view.now;
  return logs_.Read(job->id, query_, [this](const absl::StatusOr<LogThread::Page>& page) {
    FinishOnError(this, HasRead(page));
  });
}

bool ReadLogsCall::Over(const core::Job& job) const {
  const bool left_behind = query_.generation.valid() && query_.generation < job.generation;
  return job.terminal() || left_behind;
}

absl::Status ReadLogsCall::HasRead(const absl::StatusOr<LogThread::Page>& page) {
  if (!page.ok()) return page.status();
  if (context_.IsCancelled()) return EndOfWait(Waiters::Wake::kCancelled);
  if (AwaitsMoreThan(**page) && time_left_ > absl::ZeroDuration()) {
    return AwaitMore((*page)->version);
  }
  Answer(*page);
  return absl::OkStatus();
}

bool ReadLogsCall::AwaitsMoreThan(const LogPage& page) const {
  if (!page.chunks.empty() || query_.without_lines) return false;
  return !query_.finished || (request_.await_outstanding() && page.outstanding_ranks > 0);
}

absl::Status ReadLogsCall::AwaitMore(uint64_t version) {
  const uint64_t job = request_.job();
  return admission_.Wait(
      ticket_,
      {{.kind = core::Topic::Kind::kLogs, .id = job}, {.kind = core::Topic::Kind::kJob, .id = job}},
      time_left_,
      [this, version](Waiters::Wake wake, const View& view) { return Woken(wake, view, version); });
}

bool ReadLogsCall::Woken(Waiters::Wake wake, const View& view, uint64_t version) {
  // A client that left before the wait was queued has cancelled a ticket of no wait.
  if (context_.IsCancelled()) wake = Waiters::Wake::kCancelled;
  if (wake != Waiters::Wake::kChanged && wake != Waiters::Wake::kDeadline) {
    Finish(ToGrpc(EndOfWait(wake, view.failure)));
    return true;
  }
  const JobId id(request_.job());
  const core::Job* job = view.coordinator.job(id);
  const auto logs = view.log_versions.find(id);
  const bool more = logs != view.log_versions.end() && logs->second > version;
  const bool ended = job == nullptr || (Over(*job) && !query_.finished);
  if (wake == Waiters::Wake::kChanged && !more && !ended) return false;
  FinishOnError(this, ReadPage(view));
  return true;
}

void ReadLogsCall::Answer(const LogThread::Page& page) {
  // One message of two parts: each reader has its own header, and all share the page.
  const grpc::Slice parts[] = {grpc::Slice(header_.SerializeAsString()),
                               pages_.Of(page, query_.finished)};
  grpc::ByteBuffer message(parts, std::size(parts));
  response_.Swap(&message);
  Finish(grpc::Status::OK);
}

}  // namespace dp::server
