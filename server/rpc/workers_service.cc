#include "server/rpc/services.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/labels.h"
#include "base/limits.h"
#include "base/name.h"
#include "dp/v1/workers.grpc.pb.h"
#include "server/callers/client_table.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_worker.h"
#include "server/driver/driver.h"
#include "server/rpc/call.h"
#include "server/rpc/gpu_table.h"

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

// Serves proto/dp/v1/workers.proto through the driver. Thread-safe.
class WorkersService final : public v1::Workers::CallbackService {
 public:
  WorkersService(Driver& driver, ClientTable& clients, std::string store_host)
      : driver_(driver), clients_(clients), store_host_(std::move(store_host)) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterRequest* request,
                                     v1::RegisterResponse* response) override {
    if (const absl::Status checked = Check(*request); !checked.ok())
      return Refuse(context, checked);
    core::RegisterWorker worker{
        request->name(),          request->host(),
        request->address(),       Incarnation(request->incarnation()),
        request->slots(),         {request->ports().begin(), request->ports().end()},
        request->gpus(),          {request->labels().begin(), request->labels().end()},
        request->interface(),     request->process_tracking(),
        request->trains_on_gpus()};
    for (const uint64_t earlier : request->replaces()) worker.replaces.emplace_back(earlier);
    return Apply(driver_, context, std::move(worker),
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
    if (request->leaving()) {
      const core::LeaveWorker leave{WorkerId(request->worker_id()),
                                    Incarnation(request->incarnation())};
      return Apply(driver_, context, leave, [=](const core::Outcome&, const View& view) {
        SetHeader(view, response);
        return absl::OkStatus();
      });
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const auto renewed =
        driver_.Renew(WorkerId(request->worker_id()), Incarnation(request->incarnation()),
                      request->lease_number());
    if (!renewed.has_value()) {
      BeatInTurn(*request, response, reactor);
      return reactor;
    }
    SetHeader(renewed->epoch, renewed->revision, response);
    SetLease(renewed->lease, response);
    NoteNews(*request);
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* WatchAssignment(grpc::CallbackServerContext*,
                                            const v1::WatchAssignmentRequest* request,
                                            v1::WatchAssignmentResponse* response) override {
    const core::Topic topic{.kind = core::Topic::Kind::kAssignment, .id = request->worker_id()};
    return Wait(driver_, {topic}, BoundedWait(request->timeout()),
                [=, this](const View& view, bool last) -> std::optional<absl::Status> {
                  const auto assignment = view.coordinator.assignment(
                      WorkerId(request->worker_id()), Incarnation(request->incarnation()));
                  if (!assignment.ok()) return assignment.status();
                  if (assignment->version.value() == request->since() && !last) return std::nullopt;
                  SetHeader(view, response);
                  *response->mutable_assignment() =
                      ToProto(*assignment, store_host_, view.coordinator.store_limits());
                  return absl::OkStatus();
                });
  }
  grpc::ServerUnaryReactor* ReportRank(grpc::CallbackServerContext* context,
                                       const v1::ReportRankRequest* request,
                                       v1::ReportRankResponse* response) override {
    auto report = FromProto(*request);
    if (!report.ok()) return Refuse(context, report.status());
    return Apply(driver_, context, *std::move(report), [=](const core::Outcome&, const View& view) {
      SetHeader(view, response);
      return absl::OkStatus();
    });
  }
  grpc::ServerUnaryReactor* ReportSlots(grpc::CallbackServerContext* context,
                                        const v1::ReportSlotsRequest* request,
                                        v1::ReportSlotsResponse* response) override {
    return Apply(driver_, context, FromProto(*request),
                 [=](const core::Outcome&, const View& view) {
                   SetHeader(view, response);
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListWorkersRequest*,
                                 v1::ListWorkersResponse* response) override {
    return Ask(driver_, context, [=, this](const View& view) {
      SetHeader(view, response);
      response->set_held_back(static_cast<int>(view.liveness.held_back()));
      AddWorkers(view, gpus_, response);
      return absl::OkStatus();
    });
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override {
    return Apply(driver_, context,
                 core::DrainWorker{request->worker(), request->reason(), request->hand_over()},
                 [=, this](const core::Outcome&, const View& view) {
                   return AnswerWorker(request->worker(), view, gpus_, response);
                 });
  }
  grpc::ServerUnaryReactor* Undrain(grpc::CallbackServerContext* context,
                                    const v1::UndrainRequest* request,
                                    v1::UndrainResponse* response) override {
    return Apply(driver_, context, core::UndrainWorker{request->worker(), request->reason()},
                 [=, this](const core::Outcome&, const View& view) {
                   return AnswerWorker(request->worker(), view, gpus_, response);
                 });
  }
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext*,
                                  const v1::WatchWorkersRequest* request,
                                  v1::WatchWorkersResponse* response) override {
    const core::Topic topic{.kind = core::Topic::Kind::kWorkers};
    return Wait(driver_, {topic}, BoundedWait(request->timeout()),
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
  // The driver rejects the heartbeat, or renews the lease of a worker that was not published yet.
  void BeatInTurn(const v1::HeartbeatRequest& request, v1::HeartbeatResponse* response,
                  grpc::ServerUnaryReactor* reactor) {
    const absl::Status queued = driver_.Hear(
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

  Driver& driver_;
  ClientTable& clients_;
  const std::string store_host_;
  GpuTable gpus_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkersService(Driver& driver, ClientTable& clients,
                                                  std::string store_host) {
  return std::make_unique<WorkersService>(driver, clients, std::move(store_host));
}

}  // namespace dp::server
