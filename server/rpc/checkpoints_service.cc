#include "server/rpc/checkpoints_service.h"

#include "server/convert/convert_checkpoint.h"
#include "server/convert/convert_values.h"
#include "server/core/job_registry.h"
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

}  // namespace

grpc::ServerUnaryReactor* CheckpointsService::Register(grpc::CallbackServerContext* context,
                                                       const v1::RegisterCheckpointRequest* request,
                                                       v1::RegisterCheckpointResponse* response) {
  return Apply(driver_, context, ToCommand(*request), [=](const core::Outcome&, const View& view) {
    return AnswerCheckpoints(JobId(request->job()), view, response);
  });
}

grpc::ServerUnaryReactor* CheckpointsService::List(grpc::CallbackServerContext* context,
                                                   const v1::ListCheckpointsRequest* request,
                                                   v1::ListCheckpointsResponse* response) {
  return Ask(driver_, context, [=](const View& view) {
    return AnswerCheckpoints(JobId(request->job()), view, response);
  });
}

grpc::ServerUnaryReactor* CheckpointsService::RegisterWeights(
    grpc::CallbackServerContext* context, const v1::RegisterWeightsRequest* request,
    v1::RegisterWeightsResponse* response) {
  return Apply(driver_, context, ToCommand(*request), [=](const core::Outcome&, const View& view) {
    SetHeader(view, response);
    return absl::OkStatus();
  });
}

}  // namespace dp::server
