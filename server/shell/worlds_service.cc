#include "server/shell/worlds_service.h"

#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"
#include "server/shell/call.h"
#include "server/shell/convert_checkpoint.h"
#include "server/shell/convert_job.h"
#include "server/shell/convert_values.h"
#include "server/shell/convert_world.h"

namespace dp::server {

grpc::ServerUnaryReactor* WorldsService::Join(grpc::CallbackServerContext* context,
                                              const v1::JoinRequest* request,
                                              v1::JoinResponse* response) {
  const JobId job(request->job());
  const core::RankKey rank{job, Generation(request->generation()), request->rank()};
  return Apply(driver_, context, core::JoinWorld{rank, request->tells_first_step()},
               [=](const core::Outcome&, const View& view) {
                 const auto world = view.coordinator.world(job);
                 if (!world.ok()) return world.status();
                 SetHeader(view, response);
                 *response->mutable_world() = ToProto(*world);
                 const core::Job& joined = *view.coordinator.job(job);
                 *response->mutable_spec() = ParseSpec(joined.spec.payload);
                 *response->mutable_submitted_at() = ToProto(joined.submitted_at);
                 Fill(joined.checkpoints, response->mutable_checkpoints());
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* WorldsService::Watch(grpc::CallbackServerContext*,
                                               const v1::WatchWorldRequest* request,
                                               v1::WatchWorldResponse* response) {
  const core::Topic topic{.kind = core::Topic::Kind::kWorld, .id = request->job()};
  return Wait(driver_, {topic}, BoundedWait(request->timeout()),
              [=](const View& view, bool last) -> std::optional<absl::Status> {
                const auto world = view.coordinator.world(JobId(request->job()));
                if (!world.ok()) return world.status();
                if (world->version.value() <= request->since() && !last) return std::nullopt;
                SetHeader(view, response);
                *response->mutable_world() = ToProto(*world);
                return absl::OkStatus();
              });
}

grpc::ServerUnaryReactor* WorldsService::CompleteFirstStep(
    grpc::CallbackServerContext* context, const v1::CompleteFirstStepRequest* request,
    v1::CompleteFirstStepResponse* response) {
  const core::RankKey rank{JobId(request->job()), Generation(request->generation()),
                           request->rank()};
  return Apply(driver_, context, core::CompleteFirstStep{rank},
               [=](const core::Outcome&, const View& view) {
                 SetHeader(view, response);
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* WorldsService::Accuse(grpc::CallbackServerContext* context,
                                                const v1::AccuseRequest* request,
                                                v1::AccuseResponse* response) {
  core::AccusePeers accuse{
      {JobId(request->job()), Generation(request->generation()), request->rank()},
      {request->missing().begin(), request->missing().end()},
      std::string(Utf8Prefix(request->error(), kLastLineBytesMax)),
      request->insist()};
  return Apply(driver_, context, std::move(accuse), [=](const core::Outcome&, const View& view) {
    SetHeader(view, response);
    return absl::OkStatus();
  });
}

}  // namespace dp::server
