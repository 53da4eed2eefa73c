#include <memory>
#include <utility>

#include "base/status.h"
#include "dp/v1/parameters.grpc.pb.h"
#include "server/access/gate.h"
#include "server/convert/convert_call.h"
#include "server/rpc/call.h"
#include "server/rpc/parameters/parameter_calls.h"
#include "server/rpc/parameters/pull_parameters_call.h"
#include "server/rpc/parameters/pull_values_call.h"
#include "server/rpc/parameters/push_gradients_call.h"
#include "server/rpc/parameters/push_parameters_call.h"
#include "server/rpc/services.h"

namespace dp::server {
namespace {

// A unary call about a set, in two steps. The driver checks the caller, then `answer` runs on the
// service's threads, where it may wait for the disk.
template <typename Response>
grpc::ServerUnaryReactor* AnswerAside(const Admission& admission, Parameters& parameters,
                                      grpc::CallbackServerContext* context, const SetKey& key,
                                      Response* response, std::function<absl::Status()> answer) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const auto asked = [=, &parameters](const absl::Status& status, const View& view) {
    absl::Status next = status;
    if (next.ok()) next = CheckKey(key);
    if (next.ok()) next = CheckSet(admission, key, view);
    if (next.ok()) {
      SetHeader(view, response);
      next = parameters.threads.Submit([=] { reactor->Finish(ToGrpc(answer())); });
    }
    FinishOnError(reactor, next);
  };
  FinishOnError(reactor, admission.Ask(asked));
  return reactor;
}

// A unary call of a rank about its table, in two steps. The driver checks the rank, then `begin`
// gives the call to the table.
template <typename Request>
grpc::ServerUnaryReactor* ToTable(
    const Admission& admission, grpc::CallbackServerContext* context, const Request* request,
    std::function<absl::Status(grpc::ServerUnaryReactor*, const View&)> begin) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const auto asked = [=](const absl::Status& status, const View& view) {
    absl::Status next = status;
    if (next.ok()) next = CheckRankOf(*request, view);
    if (next.ok()) next = begin(reactor, view);
    FinishOnError(reactor, next);
  };
  FinishOnError(reactor, admission.Ask(asked));
  return reactor;
}

// Serves the sets and tables of proto/dp/v1/parameters.proto. The driver checks callers, and no
// tensor reaches its thread. Thread-safe.
class ParametersService final : public v1::Parameters::CallbackService {
 public:
  ParametersService(Gate& gate, Parameters& parameters) : gate_(gate), parameters_(parameters) {}

  grpc::ServerReadReactor<v1::PushParametersRequest>* Push(
      grpc::CallbackServerContext* context, v1::PushParametersResponse* response) override {
    const auto call = std::make_shared<PushParametersCall>(
        gate_.Admit(*context, Rpc::kParametersPush), parameters_, *context, *response);
    call->Start();
    return call.get();
  }
  grpc::ServerWriteReactor<v1::PullParametersResponse>* Pull(
      grpc::CallbackServerContext* context, const v1::PullParametersRequest* request) override {
    const auto call = std::make_shared<PullParametersCall>(
        About(gate_.Admit(*context, Rpc::kParametersPull), KeyOf(*request), parameters_.store),
        parameters_, *context, *request);
    call->Start();
    return call.get();
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListParametersRequest* request,
                                 v1::ListParametersResponse* response) override {
    const SetKey key = KeyOf(*request);
    const Admission admission = gate_.Admit(*context, Rpc::kParametersList);
    if (key == SetKey()) return ListAll(admission, context, KeyOf(request->after()), response);
    return AnswerAside(
        About(admission, key, parameters_.store), parameters_, context, key, response,
        [=, this]() -> absl::Status {
          DP_ASSIGN_OR_RETURN(
              auto versions,
              parameters_.store.Versions(key, request->after().version(),
                                         static_cast<size_t>(parameters_.versions_of_page) + 1));
          for (auto& each : versions) AddToPage(std::move(each), response);
          return absl::OkStatus();
        });
  }
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeParametersRequest* request,
                                     v1::DescribeParametersResponse* response) override {
    const SetKey key = KeyOf(*request);
    return AnswerAside(
        About(gate_.Admit(*context, Rpc::kParametersDescribe), key, parameters_.store), parameters_,
        context, key, response, [=, this]() -> absl::Status {
          DP_ASSIGN_OR_RETURN(const VersionReader reader,
                              parameters_.store.Open(key, request->version()));
          *response->mutable_version() = reader.description().version();
          return absl::OkStatus();
        });
  }
  grpc::ServerUnaryReactor* Remove(grpc::CallbackServerContext* context,
                                   const v1::RemoveParametersRequest* request,
                                   v1::RemoveParametersResponse* response) override {
    const SetKey key = KeyOf(*request);
    return AnswerAside(About(gate_.Admit(*context, Rpc::kParametersRemove), key, parameters_.store),
                       parameters_, context, key, response, [=, this]() -> absl::Status {
                         DP_RETURN_IF_ERROR(CheckRequestId(request->request_id()));
                         DP_ASSIGN_OR_RETURN(const uint64_t bytes,
                                             parameters_.store.Remove(key, request->version(),
                                                                      request->request_id()));
                         response->set_bytes(bytes);
                         return absl::OkStatus();
                       });
  }
  grpc::ServerUnaryReactor* OpenTable(grpc::CallbackServerContext* context,
                                      const v1::OpenTableRequest* request,
                                      v1::OpenTableResponse* response) override {
    const Admission admission =
        gate_.Admit(*context, Rpc::kParametersOpenTable, AccessObject::Of(RankKeyOf(*request)));
    return ToTable(admission, context, request,
                   [=, this](grpc::ServerUnaryReactor* reactor, const View& view) -> absl::Status {
                     SetHeader(view, response);
                     DP_RETURN_IF_ERROR(CheckRanks(*request, view));
                     DP_ASSIGN_OR_RETURN(const auto table,
                                         parameters_.tables.Open(JobId(request->job())));
                     return table->Open({Generation(request->generation()), request->rank()},
                                        request->settings(),
                                        [=](const absl::StatusOr<TableThread::Opened>& opened) {
                                          if (opened.ok()) {
                                            response->set_initial(opened->initial);
                                            response->set_next(opened->next);
                                            *response->mutable_state() = opened->state;
                                          }
                                          reactor->Finish(ToGrpc(opened.status()));
                                        });
                   });
  }
  grpc::ServerReadReactor<v1::PushGradientsRequest>* PushGradients(
      grpc::CallbackServerContext* context, v1::PushGradientsResponse* response) override {
    const auto call = std::make_shared<PushGradientsCall>(
        gate_.Admit(*context, Rpc::kParametersPushGradients), parameters_, *context, *response);
    call->Start();
    return call.get();
  }
  grpc::ServerWriteReactor<v1::PullValuesResponse>* PullValues(
      grpc::CallbackServerContext* context, const v1::PullValuesRequest* request) override {
    const auto call = std::make_shared<PullValuesCall>(
        gate_.Admit(*context, Rpc::kParametersPullValues, AccessObject::Of(RankKeyOf(*request))),
        parameters_, *context, *request);
    call->Start();
    return call.get();
  }
  grpc::ServerUnaryReactor* PublishTable(grpc::CallbackServerContext* context,
                                         const v1::PublishTableRequest* request,
                                         v1::PublishTableResponse* response) override {
    const Admission admission =
        gate_.Admit(*context, Rpc::kParametersPublishTable, AccessObject::Of(RankKeyOf(*request)));
    return ToTable(
        admission, context, request,
        [=, this](grpc::ServerUnaryReactor* reactor, const View& view) -> absl::Status {
          SetHeader(view, response);
          DP_ASSIGN_OR_RETURN(const auto table, parameters_.tables.Find(JobId(request->job())));
          return table->Publish({Generation(request->generation()), request->rank()},
                                request->number(), request->close(),
                                [=](const absl::StatusOr<v1::ParameterVersion>& version) {
                                  if (version.ok()) *response->mutable_version() = *version;
                                  reactor->Finish(ToGrpc(version.status()));
                                });
        });
  }

 private:
  // A table waits for all ranks of the world, and for no others. Errors: InvalidArgument.
  static absl::Status CheckRanks(const v1::OpenTableRequest& request, const View& view) {
    const int ranks = view.coordinator.job(JobId(request.job()))->world_size();
    if (request.settings().ranks() == ranks) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("settings.ranks: ", request.settings().ranks(),
                                                   ", but job ", request.job(), " has ", ranks));
  }
  void AddToPage(v1::ParameterVersion version, v1::ListParametersResponse* page) {
    if (page->versions_size() == parameters_.versions_of_page) return page->set_more(true);
    *page->add_versions() = std::move(version);
  }
  // Users see their own.
  grpc::ServerUnaryReactor* ListAll(const Admission& admission,
                                    grpc::CallbackServerContext* context, const SetKey& after,
                                    v1::ListParametersResponse* response) {
    return Ask(admission, context, [=, this](const View& view) {
      SetHeader(view, response);
      const std::string user = admission.user(view);
      SetKey last = after;
      while (!response->more()) {
        auto sets =
            parameters_.store.Latest(last, static_cast<size_t>(parameters_.versions_of_page));
        if (sets.empty()) break;
        last = KeyOf(sets.back());
        for (v1::ParameterVersion& each : sets) {
          const bool sees = each.job() == 0
                                ? user.empty() || each.owner() == user
                                : admission.Sees(view.coordinator.job(JobId(each.job())), view);
          if (sees) AddToPage(std::move(each), response);
        }
      }
      return absl::OkStatus();
    });
  }

  Gate& gate_;
  Parameters& parameters_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeParametersService(Gate& gate, Parameters& parameters) {
  return std::make_unique<ParametersService>(gate, parameters);
}

}  // namespace dp::server
