#include "server/rpc/services.h"

#include <memory>

#include "dp/v1/checkpoints.grpc.pb.h"
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

// Serves proto/dp/v1/checkpoints.proto through the driver. Thread-safe.
class CheckpointsService final : public v1::Checkpoints::CallbackService {
 public:
  explicit CheckpointsService(Driver& driver) : driver_(driver) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterCheckpointRequest* request,
                                     v1::RegisterCheckpointResponse* response) override {
    return Apply(driver_, context, ToCommand(*request),
                 [=](const core::Outcome&, const View& view) {
                   return AnswerCheckpoints(JobId(request->job()), view, response);
                 });
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListCheckpointsRequest* request,
                                 v1::ListCheckpointsResponse* response) override {
    return Ask(driver_, context, [=](const View& view) {
      return AnswerCheckpoints(JobId(request->job()), view, response);
    });
  }
  grpc::ServerUnaryReactor* RegisterWeights(grpc::CallbackServerContext* context,
                                            const v1::RegisterWeightsRequest* request,
                                            v1::RegisterWeightsResponse* response) override {
    return Apply(driver_, context, ToCommand(*request),
                 [=](const core::Outcome&, const View& view) {
                   SetHeader(view, response);
                   return absl::OkStatus();
                 });
  }

 private:
  Driver& driver_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeCheckpointsService(Driver& driver) {
  return std::make_unique<CheckpointsService>(driver);
}

}  // namespace dp::server
