#include "server/shell/jobs_service.h"

#include "server/core/job_registry.h"
#include "server/shell/call.h"
#include "server/shell/convert_job.h"
#include "server/shell/convert_values.h"
#include "server/shell/job_spec_check.h"
#include "server/shell/watch_job_call.h"

namespace dp::server {
namespace {

// Fills in header and job. Errors: NotFound.
template <typename Response>
absl::Status AnswerJob(JobId id, const View& view, Response* response) {
  const core::Job* job = view.coordinator.job(id);
  if (job == nullptr) return core::UnknownJob(id);
  SetHeader(view, response);
  *response->mutable_job() = ToProto(*job, view);
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* JobsService::Submit(grpc::CallbackServerContext* context,
                                              const v1::SubmitRequest* request,
                                              v1::SubmitResponse* response) {
  auto spec = CheckJobSpec(request->spec());
  if (!spec.ok()) return Refuse(context, spec.status());
  if (const absl::Status served = CheckStore(request->spec()); !served.ok()) {
    return Refuse(context, served);
  }
  return Apply(driver_, context, core::SubmitJob{request->request_id(), *std::move(spec)},
               [=](const core::Outcome& outcome, const View& view) {
                 return AnswerJob(std::get<JobId>(outcome.reply), view, response);
               });
}

absl::Status JobsService::CheckStore(const v1::JobSpec& spec) const {
  if (direct_stores_ || spec.command().store() != "direct") return absl::OkStatus();
  return absl::InvalidArgumentError(
      "command.store is direct, but this coordinator serves no stores itself; start it with "
      "--tcpstore-listen, or use relay");
}

template <typename Response>
grpc::ServerUnaryReactor* JobsService::Watch(uint64_t job, uint64_t since, absl::Duration timeout,
                                             Response* response) {
  auto* call = new WatchJobCall(driver_, logs_, JobId(job), since, *response->mutable_header(),
                                *response->mutable_job());
  call->Start(timeout);
  return call;
}

grpc::ServerUnaryReactor* JobsService::Get(grpc::CallbackServerContext*,
                                           const v1::GetJobRequest* request,
                                           v1::GetJobResponse* response) {
  // Every version is above 0: the answer comes at once.
  return Watch(request->job(), /*since=*/0, absl::ZeroDuration(), response);
}

grpc::ServerUnaryReactor* JobsService::List(grpc::CallbackServerContext* context,
                                            const v1::ListJobsRequest*,
                                            v1::ListJobsResponse* response) {
  return Ask(driver_, context, [=](const View& view) {
    SetHeader(view, response);
    for (const core::Job* job : view.coordinator.jobs())
      *response->add_jobs() = ToProto(*job, view);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobsService::Watch(grpc::CallbackServerContext*,
                                             const v1::WatchJobRequest* request,
                                             v1::WatchJobResponse* response) {
  return Watch(request->job(), request->since(), BoundedWait(request->timeout()), response);
}

grpc::ServerUnaryReactor* JobsService::Cancel(grpc::CallbackServerContext* context,
                                              const v1::CancelRequest* request,
                                              v1::CancelResponse* response) {
  return Apply(driver_, context, core::CancelJob{JobId(request->job())},
               [=](const core::Outcome&, const View& view) {
                 return AnswerJob(JobId(request->job()), view, response);
               });
}

}  // namespace dp::server
