#include "server/rpc/jobs_service.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/convert/convert_job.h"
#include "server/convert/convert_queue.h"
#include "server/convert/convert_values.h"
#include "server/core/job_registry.h"
#include "server/rpc/call.h"
#include "server/rpc/job_spec_check.h"
#include "server/rpc/watch_job_call.h"

namespace dp::server {
namespace {

// Keeps one answer far below the size limit of a message.
constexpr size_t kEventsInAnswerMax = 1'000;

// A page ends with the job that passes this size. Whatever the job's size, the page stays far below
// the size limit of a message.
constexpr size_t kPageBytes = 1 << 20;

// Fills in header and job. Errors: NotFound.
template <typename Response>
absl::Status AnswerJob(JobId id, const View& view, Response* response) {
  const core::Job* job = view.coordinator.job(id);
  if (job == nullptr) return core::UnknownJob(id);
  SetHeader(view, response);
  *response->mutable_job() = ToProto(*job, view);
  return absl::OkStatus();
}

bool Wanted(const core::Job& job, const v1::ListJobsRequest& request) {
  const auto& states = request.states();
  return job.id.value() > request.after() &&
         (request.name().empty() || job.spec.name == request.name()) &&
         (states.empty() || absl::c_linear_search(states, ToProto(job.state)));
}

void FillPage(const v1::ListJobsRequest& request, const View& view,
              v1::ListJobsResponse* response) {
  size_t bytes = 0;
  for (const core::Job* job : view.coordinator.jobs()) {
    if (!Wanted(*job, request)) continue;
    if (bytes >= kPageBytes) return response->set_more(true);
    v1::Job* listed = response->add_jobs();
    *listed = ToProto(*job, view);
    bytes += listed->ByteSizeLong();
  }
}

}  // namespace

grpc::ServerUnaryReactor* JobsService::Submit(grpc::CallbackServerContext* context,
                                              const v1::SubmitRequest* request,
                                              v1::SubmitResponse* response) {
  auto spec = Check(request->spec());
  if (!spec.ok()) return Refuse(context, spec.status());
  if (request->user().size() > kUserBytesMax) {
    return Refuse(context, absl::InvalidArgumentError(
                               absl::StrCat("user has ", request->user().size(),
                                            " bytes; give a name of at most ", kUserBytesMax)));
  }
  return Apply(driver_, context,
               core::SubmitJob{request->request_id(), *std::move(spec), request->user()},
               [=](const core::Outcome& outcome, const View& view) {
                 return AnswerJob(std::get<JobId>(outcome.reply), view, response);
               });
}

absl::StatusOr<core::JobSpec> JobsService::Check(const v1::JobSpec& spec) const {
  DP_ASSIGN_OR_RETURN(core::JobSpec checked, CheckJobSpec(spec));
  if (direct_stores_ || spec.command().store() != "direct") return checked;
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
  // Every version is above 0, so the answer comes at once.
  return Watch(request->job(), /*since=*/0, absl::ZeroDuration(), response);
}

grpc::ServerUnaryReactor* JobsService::List(grpc::CallbackServerContext* context,
                                            const v1::ListJobsRequest* request,
                                            v1::ListJobsResponse* response) {
  return Ask(driver_, context, [=](const View& view) {
    SetHeader(view, response);
    FillPage(*request, view, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobsService::Watch(grpc::CallbackServerContext*,
                                             const v1::WatchJobRequest* request,
                                             v1::WatchJobResponse* response) {
  return Watch(request->job(), request->since(), BoundedWait(request->timeout()), response);
}

template <typename Response>
grpc::ServerUnaryReactor* JobsService::Change(grpc::CallbackServerContext* context, uint64_t job,
                                              core::Action action, Response* response) {
  return Apply(driver_, context, std::move(action), [=](const core::Outcome&, const View& view) {
    return AnswerJob(JobId(job), view, response);
  });
}

grpc::ServerUnaryReactor* JobsService::Cancel(grpc::CallbackServerContext* context,
                                              const v1::CancelRequest* request,
                                              v1::CancelResponse* response) {
  return Change(context, request->job(), core::CancelJob{JobId(request->job())}, response);
}

grpc::ServerUnaryReactor* JobsService::Plan(grpc::CallbackServerContext* context,
                                            const v1::PlanRequest* request,
                                            v1::PlanResponse* response) {
  auto spec = Check(request->spec());
  if (!spec.ok()) return Refuse(context, spec.status());
  core::SubmitJob submit{"plan", *std::move(spec), request->user()};
  return Ask(driver_, context, [=, this, submit = std::move(submit)](const View& view) {
    SetHeader(view, response);
    return FillPlan(submit, driver_.placement(), view, response);
  });
}

grpc::ServerUnaryReactor* JobsService::Hold(grpc::CallbackServerContext* context,
                                            const v1::HoldRequest* request,
                                            v1::HoldResponse* response) {
  return Change(context, request->job(), core::HoldJob{JobId(request->job())}, response);
}

grpc::ServerUnaryReactor* JobsService::Release(grpc::CallbackServerContext* context,
                                               const v1::ReleaseRequest* request,
                                               v1::ReleaseResponse* response) {
  return Change(context, request->job(), core::ReleaseJob{JobId(request->job())}, response);
}

grpc::ServerUnaryReactor* JobsService::SetPriority(grpc::CallbackServerContext* context,
                                                   const v1::SetPriorityRequest* request,
                                                   v1::SetPriorityResponse* response) {
  return Change(context, request->job(),
                core::PrioritizeJob{JobId(request->job()), request->priority()}, response);
}

grpc::ServerUnaryReactor* JobsService::Requeue(grpc::CallbackServerContext* context,
                                               const v1::RequeueRequest* request,
                                               v1::RequeueResponse* response) {
  return Change(context, request->job(),
                core::RequeueJob{JobId(request->job()), Generation(request->generation())},
                response);
}

grpc::ServerUnaryReactor* JobsService::WatchEvents(grpc::CallbackServerContext*,
                                                   const v1::WatchEventsRequest* request,
                                                   v1::WatchEventsResponse* response) {
  return Wait(driver_, {{.kind = core::Topic::Kind::kEvents}}, BoundedWait(request->timeout()),
              [=](const View& view, bool last) -> std::optional<absl::Status> {
                const JobId job(request->job());
                const core::EventHistory& history = view.coordinator.state().events;
                const auto events = history.After(request->since(), job, kEventsInAnswerMax);
                if (events.empty() && !last) {
                  if (!job.valid() || view.coordinator.job(job) != nullptr) return std::nullopt;
                  return core::UnknownJob(job);
                }
                SetHeader(view, response);
                for (const core::Event* event : events) *response->add_events() = ToProto(*event);
                response->set_next_since(events.empty() ? request->since() : events.back()->number);
                response->set_oldest(history.oldest());
                return absl::OkStatus();
              });
}

}  // namespace dp::server
