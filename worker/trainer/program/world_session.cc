#include "worker/trainer/program/world_session.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status.h"
#include "client/long_poll.h"
#include "client/retry_loop.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "proto/convert/time.h"
#include "worker/engine/collectives/shm/shm_group.h"

namespace dp::trainer {
namespace {

client::RetryPolicy Policy(absl::Duration deadline, absl::Duration attempt) {
  return client::RetryPolicy({.deadline = deadline, .attempt = attempt}, EntropySeed());
}

}  // namespace

WorldSession::WorldSession(client::Connection& connection, client::Pause& pause,
                           const Environment& environment, const Clock& clock)
    : connection_(connection), pause_(pause), environment_(environment), clock_(clock) {}

absl::Status WorldSession::Join(absl::Duration timeout) {
  v1::JoinRequest request;
  request.set_job(environment_.job.value());
  request.set_generation(environment_.generation.value());
  request.set_rank(environment_.rank);
  request.set_tells_first_step(environment_.rank == 0);
  request.set_members(members());
  DP_ASSIGN_OR_RETURN(v1::JoinResponse response,
                      client::RetryLoop(Policy(timeout, client::kAnswerSlack), clock_, pause_,
                                        [&](absl::Duration in) {
                                          return connection_.Call(&v1::Worlds::Stub::Join, request,
                                                                  in);
                                        }));
  spec_ = std::move(*response.mutable_spec());
  submitted_at_ = FromProto(response.submitted_at());
  checkpoints_ = {response.checkpoints().begin(), response.checkpoints().end()};
  world_ = std::move(*response.mutable_world());
  return absl::OkStatus();
}

absl::Status WorldSession::AwaitSealed(absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(const v1::World world, AwaitState(v1::WORLD_STATE_SEALED, timeout));
  if (world.state() == v1::WORLD_STATE_SEALED) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the world was closed: ", world.reason()));
}

bool WorldSession::on_one_worker() const {
  if (world_.members().empty()) return false;
  const std::string& first = world_.members(0).worker();
  return std::all_of(world_.members().begin(), world_.members().end(),
                     [&](const v1::Member& member) { return member.worker() == first; });
}

// The table is long in large worlds, and only ranks that may share memory use it.
v1::MemberTable WorldSession::members() const {
  const bool may_share =
      !environment_.on_gpu && environment_.world_size <= engine::kSharingRanksMax;
  return may_share ? v1::MEMBER_TABLE_WHOLE : v1::MEMBER_TABLE_NONE;
}

absl::StatusOr<std::string> WorldSession::AwaitClosed(absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(const v1::World world, AwaitState(v1::WORLD_STATE_CLOSED, timeout));
  return world.reason();
}

absl::Status WorldSession::Accuse(const std::vector<int>& missing, const absl::Status& error,
                                  bool insist, absl::Duration timeout) {
  v1::AccuseRequest request;
  request.set_job(environment_.job.value());
  request.set_generation(environment_.generation.value());
  request.set_rank(environment_.rank);
  request.mutable_missing()->Add(missing.begin(), missing.end());
  request.set_error(std::string(error.message()));
  request.set_insist(insist);
  const auto attempt = [&](absl::Duration in) {
    return connection_.Call(&v1::Worlds::Stub::Accuse, request, in);
  };
  return client::RetryLoop(Policy(timeout, client::kAnswerSlack), clock_, pause_, attempt).status();
}

absl::Status WorldSession::StopEarly(const std::string& reason, absl::Duration timeout) {
  v1::StopEarlyRequest request;
  request.set_job(environment_.job.value());
  request.set_generation(environment_.generation.value());
  request.set_rank(environment_.rank);
  request.set_reason(reason);
  const auto attempt = [&](absl::Duration in) {
    return connection_.Call(&v1::Worlds::Stub::StopEarly, request, in);
  };
  const absl::Status reported =
      client::RetryLoop(Policy(timeout, client::kAnswerSlack), clock_, pause_, attempt).status();
  return absl::IsUnimplemented(reported) ? absl::OkStatus() : reported;
}

absl::StatusOr<v1::World> WorldSession::AwaitState(v1::WorldState state, absl::Duration timeout) {
  const absl::Time until = clock_.Now() + timeout;
  while (world_.state() != state && world_.state() != v1::WORLD_STATE_CLOSED) {
    if (clock_.Now() >= until) {
      return absl::DeadlineExceededError(absl::StrCat(
          "job ", environment_.job.value(), ": after ", absl::FormatDuration(timeout), ": ",
          world_.reason(), "; 'dpctl describe ", environment_.job.value(), "' shows every rank"));
    }
    DP_ASSIGN_OR_RETURN(world_, WatchOnce(until));
  }
  return world_;
}

absl::StatusOr<v1::World> WorldSession::WatchOnce(absl::Time until) {
  const absl::Duration left = std::max(absl::ZeroDuration(), until - clock_.Now());
  v1::WatchWorldRequest request;
  request.set_job(environment_.job.value());
  request.set_since(world_.version());
  request.set_generation(environment_.generation.value());
  request.set_members(members());
  *request.mutable_timeout() = ToProto(std::min(left, client::kLongPoll));
  const auto attempt = [&](absl::Duration in) {
    return connection_.Call(&v1::Worlds::Stub::Watch, request, in);
  };
  DP_ASSIGN_OR_RETURN(v1::WatchWorldResponse response,
                      client::RetryLoop(Policy(left + client::kAnswerSlack,
                                               client::kLongPoll + client::kAnswerSlack),
                                        clock_, pause_, attempt));
  v1::World& world = *response.mutable_world();
  if (world.generation() > environment_.generation.value()) {
    world.set_state(v1::WORLD_STATE_CLOSED);  // this rank's world is closed
    world.set_reason(absl::StrCat("generation ", world.generation(), " has begun"));
  }
  return std::move(world);
}

}  // namespace dp::trainer
