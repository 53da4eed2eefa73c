#include "server/rpc/services.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/labels.h"
#include "base/limits.h"
#include "base/name.h"
#include "base/takes_secrets.h"
#include "dp/v1/workers.grpc.pb.h"
#include "proto/job/trainer_level.h"
#include "server/access/gate.h"
#include "server/callers/client_table.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_worker.h"
#include "server/driver/driver.h"
#include "server/rpc/call.h"
#include "server/rpc/gpu_table.h"
#include "server/rpc/job_secrets.h"

namespace dp::server {
namespace {

template <typename Response>
void AddWorkers(const View& view, GpuTable& gpus, Response* response) {
  for (const core::Worker* worker : view.coordinator.workers()) {
    v1::Worker* proto = response->add_workers();
    *proto = ToProto(*worker, view);
    gpus.Show(*worker, view, proto);
  }
}

void SetLease(const core::Liveness::Lease& lease, v1::HeartbeatResponse* response) {
  *response->mutable_lease() = ToProto(lease.term);
  response->set_lease_number(lease.number);
}

// Answers an accepted drain or undrain, so the worker exists.
template <typename Response>
absl::Status AnswerWorker(const std::string& name, const View& view, GpuTable& gpus,
                          Response* response) {
  SetHeader(view, response);
  for (const core::Worker* worker : view.coordinator.workers()) {
    if (worker->name != name) continue;
    *response->mutable_worker() = ToProto(*worker, view);
    gpus.Show(*worker, view, response->mutable_worker());
  }
  return absl::OkStatus();
}

// Checks what logs, terminals and constraints of jobs show or compare.
absl::Status CheckTexts(const v1::RegisterRequest& request) {
  for (const auto& [field, text] :
       {std::pair("host", &request.host()), std::pair("address", &request.address()),
        std::pair("interface", &request.interface())}) {
    if (IsPlainText(*text)) continue;
    return absl::InvalidArgumentError(absl::StrCat(field, " is \"", absl::Utf8SafeCEscape(*text),
                                                   "\"; give one without control characters"));
  }
  for (const auto& [key, value] :
       std::map<std::string, std::string>(request.labels().begin(), request.labels().end())) {
    const std::string label = absl::Utf8SafeCEscape(absl::StrCat(key, "=", value));
    const absl::Status parsed = ParseLabel(label).status();
    if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("a label ", parsed.message()));
  }
  return absl::OkStatus();
}

// Bounds what stays in the machine's state for as long as the worker does.
absl::Status Check(const v1::RegisterRequest& request) {
  if (request.ByteSizeLong() > kRegistrationBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a registration has ", request.ByteSizeLong(),
                                                   " bytes, the limit is ", kRegistrationBytesMax,
                                                   "; give fewer or shorter labels"));
  }
  if (request.gpus() >= 0) return CheckTexts(request);
  return absl::InvalidArgumentError(
      absl::StrCat("gpus is ", request.gpus(), "; give the number of GPUs of the host, 0 or more"));
}

// The name, or the host after which the coordinator names the worker. The machine also accepts
// names of earlier releases. Errors: InvalidArgument.
absl::Status CheckWorkerName(const core::RegisterWorker& worker) {
  const std::string& name = worker.name.empty() ? worker.host : worker.name;
  if (IsWorkerName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(worker.name.empty() ? "host '" : "name '",
                                                 absl::Utf8SafeCEscape(name),
                                                 "' is no worker name; use ", kWorkerNameRule));
}

// Replaces the labels of levels, which only the coordinator sets. It knows no level above its own.
void SetTrainerLevel(int level, Labels& labels) {
  std::erase_if(
      labels, [](const auto& label) { return absl::StartsWith(label.first, kTrainerLevelPrefix); });
  for (int i = 1; i <= std::min(level, kTrainerLevel); ++i) labels[TrainerLevelLabel(i)] = "";
}

// Serves proto/dp/v1/workers.proto through the driver. Thread-safe.
class WorkersService final : public v1::Workers::CallbackService {
 public:
  WorkersService(Gate& gate, ClientTable& clients, std::string store_host)
      : gate_(gate), clients_(clients), store_host_(std::move(store_host)) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterRequest* request,
                                     v1::RegisterResponse* response) override {
    core::RegisterWorker worker{
        request->name(),          request->host(),
        request->address(),       Incarnation(request->incarnation()),
        request->slots(),         {request->ports().begin(), request->ports().end()},
        request->gpus(),          {request->labels().begin(), request->labels().end()},
        request->interface(),     request->process_tracking(),
        request->trains_on_gpus()};
    Admission admission = gate_.Admit(*context, Rpc::kWorkersRegister);
    // Its certificate names a daemon that was started without a name.
    if (worker.name.empty() && admission.caller().kind == Caller::Kind::kCertificate) {
      worker.name = admission.caller().identity.name;
    }
    admission = admission.About(AccessObject::OfWorkerNamed(worker.name));
    // Only the coordinator sets this label.
    worker.labels.erase(kTakesSecrets);
    SetTrainerLevel(request->trainer_level(), worker.labels);
    if (request->takes_secrets() && MayHaveSecrets(admission.caller())) {
      worker.labels[kTakesSecrets] = "";
    }
    absl::Status checked = Check(*request);
    checked.Update(CheckWorkerName(worker));
    if (!checked.ok()) {
      return Refuse(admission, context, checked);
    }
    for (const uint64_t earlier : request->replaces()) worker.replaces.emplace_back(earlier);
    return Apply(admission, context, std::move(worker),
                 [=, this](const core::Outcome& outcome, const View& view) {
                   const WorkerId id = std::get<WorkerId>(outcome.reply);
                   gpus_.Register(id, *request, view);
                   clients_.TakeNews(view);
                   SetHeader(view, response);
                   response->set_worker_id(id.value());
                   response->set_name(view.coordinator.worker(id)->name);
                   *response->mutable_lease() = ToProto(view.liveness.lease());
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const v1::HeartbeatRequest* request,
                                      v1::HeartbeatResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kWorkersHeartbeat,
                                            AccessObject::Of(WorkerId(request->worker_id())));
    if (request->leaving()) {
      const core::LeaveWorker leave{WorkerId(request->worker_id()),
                                    Incarnation(request->incarnation())};
      return Apply(admission, context, leave, [=](const core::Outcome&, const View& view) {
        SetHeader(view, response);
        return absl::OkStatus();
      });
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const auto renewed =
        admission.Renew(WorkerId(request->worker_id()), Incarnation(request->incarnation()),
                        request->lease_number());
    if (!renewed.has_value()) {
      BeatInTurn(admission, *request, response, reactor);
      return reactor;
    }
    SetHeader(renewed->epoch, renewed->revision, response);
    SetLease(renewed->lease, response);
    NoteNews(*request);
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* WatchAssignment(grpc::CallbackServerContext* context,
                                            const v1::WatchAssignmentRequest* request,
                                            v1::WatchAssignmentResponse* response) override {
    const core::Topic topic{.kind = core::Topic::Kind::kAssignment, .id = request->worker_id()};
    const Admission admission = gate_.Admit(*context, Rpc::kWorkersWatchAssignment,
                                            AccessObject::Of(WorkerId(request->worker_id())));
    return Wait(admission, {topic}, BoundedWait(request->timeout()),
                [=, this](const View& view, bool last) -> std::optional<absl::Status> {
                  const auto assignment = view.coordinator.assignment(
                      WorkerId(request->worker_id()), Incarnation(request->incarnation()));
                  if (!assignment.ok()) return assignment.status();
                  if (assignment->version.value() == request->since() && !last) return std::nullopt;
                  SetHeader(view, response);
                  *response->mutable_assignment() =
                      ToProto(*assignment, store_host_, view.coordinator.store_limits());
                  AddTokens(response->mutable_assignment());
                  AddSecrets(admission.caller(), view, response->mutable_assignment());
                  return absl::OkStatus();
                });
  }
  grpc::ServerUnaryReactor* ReportRank(grpc::CallbackServerContext* context,
                                       const v1::ReportRankRequest* request,
                                       v1::ReportRankResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kWorkersReportRank,
                                            AccessObject::Of(WorkerId(request->worker_id())));
    auto report = FromProto(*request);
    if (!report.ok()) return Refuse(admission, context, report.status());
    return Apply(admission, context, *std::move(report),
                 [=](const core::Outcome&, const View& view) {
                   SetHeader(view, response);
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* ReportSlots(grpc::CallbackServerContext* context,
                                        const v1::ReportSlotsRequest* request,
                                        v1::ReportSlotsResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kWorkersReportSlots,
                                            AccessObject::Of(WorkerId(request->worker_id())));
    return Apply(admission, context, FromProto(*request),
                 [=](const core::Outcome&, const View& view) {
                   SetHeader(view, response);
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListWorkersRequest*,
                                 v1::ListWorkersResponse* response) override {
    return Ask(gate_.Admit(*context, Rpc::kWorkersList), context, [=, this](const View& view) {
      SetHeader(view, response);
      response->set_held_back(static_cast<int>(view.liveness.held_back()));
      response->set_insecure(gate_.plain_text());
      AddWorkers(view, gpus_, response);
      return absl::OkStatus();
    });
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override {
    const Admission admission =
        gate_.Admit(*context, Rpc::kWorkersDrain, AccessObject::OfWorkerNamed(request->worker()));
    return Apply(admission, context,
                 core::DrainWorker{request->worker(), request->reason(), request->hand_over()},
                 [=, this](const core::Outcome&, const View& view) {
                   return AnswerWorker(request->worker(), view, gpus_, response);
                 });
  }
  grpc::ServerUnaryReactor* Undrain(grpc::CallbackServerContext* context,
                                    const v1::UndrainRequest* request,
                                    v1::UndrainResponse* response) override {
    const Admission admission =
        gate_.Admit(*context, Rpc::kWorkersUndrain, AccessObject::OfWorkerNamed(request->worker()));
    return Apply(admission, context, core::UndrainWorker{request->worker(), request->reason()},
                 [=, this](const core::Outcome&, const View& view) {
                   return AnswerWorker(request->worker(), view, gpus_, response);
                 });
  }
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  const v1::WatchWorkersRequest* request,
                                  v1::WatchWorkersResponse* response) override {
    const core::Topic topic{.kind = core::Topic::Kind::kWorkers};
    return Wait(gate_.Admit(*context, Rpc::kWorkersWatch), {topic}, BoundedWait(request->timeout()),
                [=, this](const View& view, bool last) -> std::optional<absl::Status> {
                  const Revision version = view.coordinator.version(topic);
                  if (version.value() == request->since() && !last) return std::nullopt;
                  SetHeader(view, response);
                  response->set_version(version.value());
                  AddWorkers(view, gpus_, response);
                  return absl::OkStatus();
                });
  }

 private:
  void AddTokens(v1::Assignment* assignment) const {
    if (!gate_.token_key().has_value()) return;
    for (v1::AssignedRank& rank : *assignment->mutable_ranks()) {
      rank.set_token(gate_.token_key()->Token(
          {.rank = {JobId(rank.job()), Generation(rank.generation()), rank.rank()},
           .job_submitted_at = FromProto(rank.submitted_at())}));
    }
  }
  // Ranks of one job are adjacent, and only the first has the secrets. Otherwise the assignment of
  // a worker with many slots could exceed the size of a message.
  void AddSecrets(const Caller& caller, const View& view, v1::Assignment* assignment) const {
    uint64_t before = 0;  // the job of the rank before
    for (v1::AssignedRank& rank : *assignment->mutable_ranks()) {
      const core::Job* job = view.coordinator.job(JobId(rank.job()));
      const bool first = std::exchange(before, rank.job()) != rank.job();
      if (!first || job == nullptr || rank.spec().secrets().empty()) continue;
      OpenSecrets(*job, gate_.sealing_key(), caller, &rank);
    }
  }
  // The driver rejects the heartbeat, or renews the lease of a worker that was not published yet.
  void BeatInTurn(const Admission& admission, const v1::HeartbeatRequest& request,
                  v1::HeartbeatResponse* response, grpc::ServerUnaryReactor* reactor) {
    const absl::Status queued = admission.Hear(
        WorkerId(request.worker_id()), Incarnation(request.incarnation()),
        [=, this, &request](const absl::Status& status, const View& view) {
          if (status.ok()) {
            SetHeader(view, response);
            SetLease(view.liveness.offer(WorkerId(request.worker_id())), response);
            NoteNews(request);
          }
          reactor->Finish(ToGrpc(status));
        },
        request.lease_number());
    if (!queued.ok()) reactor->Finish(ToGrpc(queued));
  }
  // Notes the GPUs and connections of a heartbeat that renewed a lease. Any thread.
  void NoteNews(const v1::HeartbeatRequest& request) {
    const WorkerId worker(request.worker_id());
    const Incarnation life(request.incarnation());
    gpus_.Report(worker, life, request.gpu_list());
    if (request.has_store_clients()) clients_.Report(worker, life, request.store_clients());
  }

  Gate& gate_;
  ClientTable& clients_;
  const std::string store_host_;
  GpuTable gpus_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkersService(Gate& gate, ClientTable& clients,
                                                  std::string store_host) {
  return std::make_unique<WorkersService>(gate, clients, std::move(store_host));
}

}  // namespace dp::server
