#include "server/rpc/services.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "server/access/gate.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_checkpoint.h"
#include "server/convert/convert_job.h"
#include "server/convert/convert_world.h"
#include "server/driver/driver.h"
#include "server/rpc/call.h"

namespace dp::server {
namespace {

// Sets nothing if a later command of the same batch has placed the next generation, which may have
// another size.
void SetPlace(const core::Job& job, const core::RankKey& rank, v1::JoinResponse* response) {
  if (job.generation != rank.generation) return;
  *response->mutable_member() = ToProto(core::MemberOf(job, rank.rank));
  response->set_master_address(job.ranks.front().address);
}

// A rank waits under the topic that does not change when a peer joins.
core::Topic AwaitedTopic(const v1::WatchWorldRequest& request) {
  using Kind = core::Topic::Kind;
  return {.kind = request.generation() == 0 ? Kind::kWorld : Kind::kWorldState,
          .id = request.job()};
}

// Whether the world has news for the caller. Precondition: the job exists.
bool HasNews(const View& view, const v1::WatchWorldRequest& request) {
  const core::Topic world{.kind = core::Topic::Kind::kWorld, .id = request.job()};
  if (view.coordinator.version(world).value() == request.since()) return false;
  return request.generation() == 0 ||
         core::ConcernsItsRanks(*view.coordinator.job(JobId(request.job())),
                                Generation(request.generation()));
}

// Serves proto/dp/v1/worlds.proto through the driver. Thread-safe.
class WorldsService final : public v1::Worlds::CallbackService {
 public:
  explicit WorldsService(Gate& gate) : gate_(gate) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const v1::JoinRequest* request,
                                 v1::JoinResponse* response) override {
    const JobId job(request->job());
    const core::RankKey rank{job, Generation(request->generation()), request->rank()};
    return Apply(gate_.Admit(*context, Rpc::kWorldsJoin, AccessObject::Of(rank)), context,
                 core::JoinWorld{rank, request->tells_first_step()},
                 [=](const core::Outcome&, const View& view) {
                   const auto world = view.coordinator.world(job, FromProto(request->members()));
                   if (!world.ok()) return world.status();
                   SetHeader(view, response);
                   *response->mutable_world() = ToProto(*world);
                   const core::Job& joined = *view.coordinator.job(job);
                   SetPlace(joined, rank, response);
                   *response->mutable_spec() = ParseSpec(joined.spec.payload);
                   *response->mutable_submitted_at() = ToProto(joined.submitted_at);
                   Fill(joined.checkpoints, response->mutable_checkpoints());
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  const v1::WatchWorldRequest* request,
                                  v1::WatchWorldResponse* response) override {
    const JobId job(request->job());
    const Admission admission = gate_.Admit(
        *context, Rpc::kWorldsWatch, AccessObject::Of(job, Generation(request->generation())));
    return Wait(admission, {AwaitedTopic(*request)}, BoundedWait(request->timeout()),
                [=](const View& view, bool last) -> std::optional<absl::Status> {
                  const bool known = view.coordinator.job(job) != nullptr;
                  if (known && !last && !HasNews(view, *request)) return std::nullopt;
                  const auto world = view.coordinator.world(job, FromProto(request->members()));
                  if (!world.ok()) return world.status();
                  SetHeader(view, response);
                  *response->mutable_world() = ToProto(*world);
                  return absl::OkStatus();
                });
  }
  grpc::ServerUnaryReactor* CompleteFirstStep(grpc::CallbackServerContext* context,
                                              const v1::CompleteFirstStepRequest* request,
                                              v1::CompleteFirstStepResponse* response) override {
    const core::RankKey rank{JobId(request->job()), Generation(request->generation()),
                             request->rank()};
    return Apply(gate_.Admit(*context, Rpc::kWorldsCompleteFirstStep, AccessObject::Of(rank)),
                 context, core::CompleteFirstStep{rank},
                 [=](const core::Outcome&, const View& view) {
                   SetHeader(view, response);
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* StopEarly(grpc::CallbackServerContext* context,
                                      const v1::StopEarlyRequest* request,
                                      v1::StopEarlyResponse* response) override {
    core::StopEarly stop{
        {JobId(request->job()), Generation(request->generation()), request->rank()},
        std::string(Utf8Prefix(request->reason(), kLastLineBytesMax))};
    const Admission admission =
        gate_.Admit(*context, Rpc::kWorldsStopEarly, AccessObject::Of(stop.rank));
    return Apply(admission, context, std::move(stop), [=](const core::Outcome&, const View& view) {
      SetHeader(view, response);
      return absl::OkStatus();
    });
  }
  grpc::ServerUnaryReactor* Accuse(grpc::CallbackServerContext* context,
                                   const v1::AccuseRequest* request,
                                   v1::AccuseResponse* response) override {
    core::AccusePeers accuse{
        {JobId(request->job()), Generation(request->generation()), request->rank()},
        {request->missing().begin(), request->missing().end()},
        std::string(Utf8Prefix(request->error(), kLastLineBytesMax)),
        request->insist()};
    const Admission admission =
        gate_.Admit(*context, Rpc::kWorldsAccuse, AccessObject::Of(accuse.rank));
    return Apply(admission, context, std::move(accuse),
                 [=](const core::Outcome&, const View& view) {
                   SetHeader(view, response);
                   return absl::OkStatus();
                 });
  }

 private:
  Gate& gate_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorldsService(Gate& gate) {
  return std::make_unique<WorldsService>(gate);
}

}  // namespace dp::server
