#include "server/rpc/services.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/security/visible_text.h"
#include "base/status.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "server/access/gate.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_job.h"
#include "server/convert/convert_queue.h"
#include "server/core/job_registry.h"
#include "server/driver/driver.h"
#include "server/logs/log_thread.h"
#include "server/rpc/call.h"
#include "server/rpc/job_secrets.h"
#include "server/rpc/job_spec_check.h"
#include "server/rpc/submission_check.h"
#include "server/rpc/watch_job_call.h"

namespace dp::server {
namespace {

// Keeps one answer far below the size limit of a message.
constexpr size_t kEventsInAnswerMax = 1'000;

// A page ends with the job that passes this size. Whatever the job's size, the page stays far below
// the size limit of a message.
constexpr size_t kPageBytes = 1 << 20;

absl::Status CheckUser(const std::string& user) {
  if (user.size() > kUserBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("user has ", user.size(), " bytes; give a name of at most ", kUserBytesMax));
  }
  if (security::IsVisibleText(user)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "user is \"", absl::CEscape(user), "\"; give a name of ", security::kVisibleTextRule));
}

// Fills in header and job. Errors: NotFound.
template <typename Response>
absl::Status AnswerJob(const Admission& admission, JobId id, const View& view, Response* response) {
  const core::Job* job = view.coordinator.job(id);
  if (job == nullptr) return core::UnknownJob(id);
  SetHeader(view, response);
  *response->mutable_job() = ToProto(*job, view);
  if (admission.HidesValues(view)) HideValues(response->mutable_job());
  return absl::OkStatus();
}

bool Wanted(const core::Job& job, const v1::ListJobsRequest& request, absl::Time now) {
  const auto& states = request.states();
  return job.id.value() > request.after() &&
         (request.name().empty() || job.spec.name == request.name()) &&
         (states.empty() || absl::c_linear_search(states, ToProto(job.state))) &&
         (!request.has_finished_for() || job.finished_at.value_or(absl::InfiniteFuture()) <=
                                             now - FromProto(request.finished_for()));
}

void FillPage(const Admission& admission, const v1::ListJobsRequest& request, const View& view,
              v1::ListJobsResponse* response) {
  size_t bytes = 0;
  for (const core::Job* job : view.coordinator.jobs()) {
    if (!Wanted(*job, request, view.now) || !admission.Sees(job, view)) continue;
    if (bytes >= kPageBytes) return response->set_more(true);
    v1::Job* listed = response->add_jobs();
    *listed = ToProto(*job, view);
    if (admission.HidesValues(view)) HideValues(listed);
    bytes += listed->ByteSizeLong();
  }
}

// Serves proto/dp/v1/jobs.proto through the driver; a failure's last lines may come from the logs.
// Thread-safe.
class JobsService final : public v1::Jobs::CallbackService {
 public:
  JobsService(Gate& gate, LogThread& logs, bool direct_stores)
      : gate_(gate), logs_(logs), direct_stores_(direct_stores) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override {
    core::SubmitJob submit{.request_id = request->request_id(), .user = request->user()};
    const Admission admission = AdmitOwner(*context, Rpc::kJobsSubmit, &submit);
    if (const absl::Status checked = Check(*request, &submit.spec); !checked.ok()) {
      return Refuse(admission, context, checked);
    }
    auto sealed = SealSecrets(*request, gate_.sealing_key(), admission.caller());
    if (!sealed.ok()) return Refuse(admission, context, sealed.status());
    submit.secrets = *std::move(sealed);
    const SubmissionCheck check(submit, admission, gate_.placement().limits);
    return Apply(admission.Requires(check), context, std::move(submit),
                 [=](const core::Outcome& outcome, const View& view) -> absl::Status {
                   const JobId id = std::get<JobId>(outcome.reply);
                   if (admission.Sees(view.coordinator.job(id), view)) {
                     return AnswerJob(admission, id, view, response);
                   }
                   return absl::AlreadyExistsError(
                       "request_id is that of somebody else's job; draw one at random for each "
                       "job");
                 });
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetJobRequest* request,
                                v1::GetJobResponse* response) override {
    // Every version is above 0, so the answer comes at once.
    return Watch(*context, Rpc::kJobsGet, request->job(), /*since=*/0, absl::ZeroDuration(),
                 response);
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListJobsRequest* request,
                                 v1::ListJobsResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kJobsList);
    return Ask(admission, context, [=](const View& view) {
      SetHeader(view, response);
      if (request->has_finished_for()) {
        *response->mutable_finished_for() = request->finished_for();
      }
      FillPage(admission, *request, view, response);
      return absl::OkStatus();
    });
  }
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  const v1::WatchJobRequest* request,
                                  v1::WatchJobResponse* response) override {
    return Watch(*context, Rpc::kJobsWatch, request->job(), request->since(),
                 BoundedWait(request->timeout()), response);
  }
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override {
    return Change(context, Rpc::kJobsCancel, request->job(), core::CancelJob{JobId(request->job())},
                  response);
  }
  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const v1::PlanRequest* request,
                                 v1::PlanResponse* response) override {
    core::SubmitJob submit{.request_id = "plan", .user = request->user()};
    const Admission admission = AdmitOwner(*context, Rpc::kJobsPlan, &submit);
    if (const absl::Status checked = Check(*request, &submit.spec); !checked.ok()) {
      return Refuse(admission, context, checked);
    }
    const SubmissionCheck check(submit, admission, gate_.placement().limits);
    return Ask(admission, context,
               [=, this, submit = std::move(submit)](const View& view) -> absl::Status {
                 DP_RETURN_IF_ERROR(check.CheckNew(view));
                 SetHeader(view, response);
                 return FillPlan(submit, gate_.placement(), view, response);
               });
  }
  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context,
                                 const v1::HoldRequest* request,
                                 v1::HoldResponse* response) override {
    return Change(context, Rpc::kJobsHold, request->job(), core::HoldJob{JobId(request->job())},
                  response);
  }
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override {
    return Change(context, Rpc::kJobsRelease, request->job(),
                  core::ReleaseJob{JobId(request->job())}, response);
  }
  grpc::ServerUnaryReactor* SetPriority(grpc::CallbackServerContext* context,
                                        const v1::SetPriorityRequest* request,
                                        v1::SetPriorityResponse* response) override {
    return Change(context, Rpc::kJobsSetPriority, request->job(),
                  core::PrioritizeJob{JobId(request->job()), request->priority()}, response);
  }
  grpc::ServerUnaryReactor* Requeue(grpc::CallbackServerContext* context,
                                    const v1::RequeueRequest* request,
                                    v1::RequeueResponse* response) override {
    return Change(context, Rpc::kJobsRequeue, request->job(),
                  core::RequeueJob{JobId(request->job()), Generation(request->generation())},
                  response);
  }
  grpc::ServerUnaryReactor* Remove(grpc::CallbackServerContext* context,
                                   const v1::RemoveRequest* request,
                                   v1::RemoveResponse* response) override {
    core::ForgetJob forget{JobId(request->job())};
    const Admission admission =
        gate_.Admit(*context, Rpc::kJobsRemove, AccessObject::Of(forget.job));
    if (const absl::Status user = CheckUser(request->user()); !user.ok()) {
      return Refuse(admission, context, user);
    }
    // A client may leave out who asks.
    forget.user = request->user().empty() ? "unknown" : request->user();
    if (request->has_submitted_at()) forget.submitted_at = FromProto(request->submitted_at());
    forget.with_files = request->with_files();
    if (admission.caller().is_person()) forget.user = admission.caller().identity.name;
    return Apply(admission, context, std::move(forget),
                 [=](const core::Outcome&, const View& view) {
                   SetHeader(view, response);
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* WatchEvents(grpc::CallbackServerContext* context,
                                        const v1::WatchEventsRequest* request,
                                        v1::WatchEventsResponse* response) override {
    const JobId job(request->job());
    const Admission admission = gate_.Admit(*context, Rpc::kJobsWatchEvents, AccessObject::Of(job));
    return Wait(
        admission, {{.kind = core::Topic::Kind::kEvents}}, BoundedWait(request->timeout()),
        [=](const View& view, bool last) -> std::optional<absl::Status> {
          const core::EventHistory& history = view.coordinator.state().events;
          const auto events = history.After(request->since(), job, kEventsInAnswerMax);
          if (events.empty() && !last) {
            if (!job.valid() || view.coordinator.job(job) != nullptr) return std::nullopt;
            return core::UnknownJob(job);
          }
          SetHeader(view, response);
          for (const core::Event* event : events) {
            if (admission.Sees(*event, view)) *response->add_events() = ToProto(*event);
          }
          response->set_next_since(events.empty() ? request->since() : events.back()->number);
          response->set_oldest(history.oldest());
          return absl::OkStatus();
        });
  }

 private:
  // Sets who submits the job: a user does it in their own name, an administrator in any. In plain
  // text anybody may give any name, so it proves nothing.
  Admission AdmitOwner(grpc::CallbackServerContext& context, Rpc rpc, core::SubmitJob* submit) {
    const Admission admission = gate_.Admit(context, rpc);
    const Caller& caller = admission.caller();
    if (!caller.is_person()) return admission;
    const bool for_others = caller.identity.role == security::Role::kAdmin && !submit->user.empty();
    if (!for_others) submit->user = caller.identity.name;
    submit->owner = submit->user;
    return admission.About(AccessObject::OfUser(submit->user));
  }
  // Checks the job and the user of a SubmitRequest or PlanRequest, and fills in the job.
  // Errors: those of CheckJobSpec; InvalidArgument nobody would serve the job's store.
  template <typename Request>
  absl::Status Check(const Request& request, core::JobSpec* checked) const {
    const v1::JobSpec& spec = request.spec();
    DP_ASSIGN_OR_RETURN(*checked, CheckJobSpec(spec));
    DP_RETURN_IF_ERROR(CheckUser(request.user()));
    if (direct_stores_ || spec.command().store() != "direct") return absl::OkStatus();
    return absl::InvalidArgumentError(
        "command.store is direct, but this coordinator serves no stores itself; start it with "
        "--tcpstore-listen, or use relay");
  }
  // Applies the command to a job, and answers with the job.
  template <typename Response>
  grpc::ServerUnaryReactor* Change(grpc::CallbackServerContext* context, Rpc rpc, uint64_t job,
                                   core::Action action, Response* response) {
    const Admission admission = gate_.Admit(*context, rpc, AccessObject::Of(JobId(job)));
    return Apply(admission, context, std::move(action),
                 [=](const core::Outcome&, const View& view) {
                   return AnswerJob(admission, JobId(job), view, response);
                 });
  }
  // Answers once the job's version is no longer `since`.
  template <typename Response>
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext& context, Rpc rpc, uint64_t job,
                                  uint64_t since, absl::Duration timeout, Response* response) {
    auto* call =
        new WatchJobCall(gate_.Admit(context, rpc, AccessObject::Of(JobId(job))), logs_, JobId(job),
                         since, *response->mutable_header(), *response->mutable_job());
    call->Start(timeout);
    return call;
  }

  Gate& gate_;
  LogThread& logs_;
  const bool direct_stores_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobsService(Gate& gate, LogThread& logs, bool direct_stores) {
  return std::make_unique<JobsService>(gate, logs, direct_stores);
}

}  // namespace dp::server
