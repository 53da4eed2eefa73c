#include "worker/trainer/loop/handover_watch.h"

#include <pthread.h>

#include "base/random.h"
#include "client/long_poll.h"
#include "client/retry_loop.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::trainer {

HandoverWatch::HandoverWatch(client::Connection& connection, const Environment& environment,
                             const Clock& clock)
    : connection_(connection), environment_(environment), clock_(clock), thread_([this] {
        pthread_setname_np(pthread_self(), "handover");
        Run();
      }) {}

HandoverWatch::~HandoverWatch() {
  stopped_ = true;
  pause_.Stop();
}

void HandoverWatch::Run() {
  v1::WatchWorldRequest request;
  request.set_job(environment_.job.value());
  request.set_generation(environment_.generation.value());
  request.set_members(v1::MEMBER_TABLE_NONE);
  *request.mutable_timeout() = ToProto(client::kLongPoll);
  while (!stopped_ && !asked_) {
    const auto attempt = [&](absl::Duration in) {
      return connection_.Call(&v1::Worlds::Stub::Watch, request, in);
    };
    const auto response = client::RetryLoop(
        client::RetryPolicy(
            {.deadline = absl::Hours(24), .attempt = client::kLongPoll + client::kAnswerSlack},
            EntropySeed()),
        clock_, pause_, attempt);
    if (!response.ok()) return;  // shut down, or the job is gone
    const v1::World& world = response->world();
    if (world.generation() != environment_.generation.value()) return;
    request.set_since(world.version());
    asked_ = !world.handover().empty();
  }
}

}  // namespace dp::trainer
