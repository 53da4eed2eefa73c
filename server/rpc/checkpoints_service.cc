#include "server/rpc/services.h"

#include <memory>

#include "dp/v1/checkpoints.grpc.pb.h"
#include "server/access/gate.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_checkpoint.h"
#include "server/core/job_registry.h"
#include "server/driver/driver.h"
#include "server/rpc/call.h"

namespace dp::server {
namespace {

// Fills in header and checkpoints. Errors: NotFound.
template <typename Response>
absl::Status AnswerCheckpoints(JobId id, const View& view, Response* response) {
  const core::Job* job = view.coordinator.job(id);
  if (job == nullptr) return core::UnknownJob(id);
  SetHeader(view, response);
  Fill(job->checkpoints, response->mutable_checkpoints());
  return absl::OkStatus();
}

template <typename Request>
AccessObject RankOf(const Request& request) {
  return AccessObject::Of(
      core::RankKey{JobId(request.job()), Generation(request.generation()), request.rank()});
}

// Serves proto/dp/v1/checkpoints.proto through the driver. Thread-safe.
class CheckpointsService final : public v1::Checkpoints::CallbackService {
 public:
  explicit CheckpointsService(Gate& gate) : gate_(gate) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterCheckpointRequest* request,
                                     v1::RegisterCheckpointResponse* response) override {
    return Apply(gate_.Admit(*context, Rpc::kCheckpointsRegister, RankOf(*request)), context,
                 ToCommand(*request), [=](const core::Outcome&, const View& view) {
                   return AnswerCheckpoints(JobId(request->job()), view, response);
                 });
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListCheckpointsRequest* request,
                                 v1::ListCheckpointsResponse* response) override {
    const JobId job(request->job());
    return Ask(gate_.Admit(*context, Rpc::kCheckpointsList, AccessObject::Of(job)), context,
               [=](const View& view) { return AnswerCheckpoints(job, view, response); });
  }
  grpc::ServerUnaryReactor* RegisterWeights(grpc::CallbackServerContext* context,
                                            const v1::RegisterWeightsRequest* request,
                                            v1::RegisterWeightsResponse* response) override {
    return Apply(gate_.Admit(*context, Rpc::kCheckpointsRegisterWeights, RankOf(*request)), context,
                 ToCommand(*request), [=](const core::Outcome&, const View& view) {
                   SetHeader(view, response);
                   return absl::OkStatus();
                 });
  }

 private:
  Gate& gate_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeCheckpointsService(Gate& gate) {
  return std::make_unique<CheckpointsService>(gate);
}

}  // namespace dp::server
