#include "tests/bench/scale_join.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "client/connection.h"
#include "client/long_poll.h"
#include "client/retry_policy.h"
#include "proto/convert/time.h"
#include "tests/bench/bench_credentials.h"
#include "tests/bench/scale_call.h"

namespace dp::bench {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

}  // namespace

Assembly::Assembly(const std::string& address, uint64_t job, int hosts, int slots)
    : unsealed_(hosts * slots) {
  const client::Credentials credentials = CredentialsFor(address);
  for (int host = 0; host < hosts; ++host) {
    channels_.push_back(client::MakeChannel(address, credentials));
    worlds_.push_back(v1::Worlds::NewStub(channels_.back()));
    for (int slot = 0; slot < slots; ++slot) {
      v1::JoinRequest join;
      join.set_job(job);
      join.set_generation(1);
      join.set_rank(host * slots + slot);
      join.set_tells_first_step(join.rank() == 0);
      join.set_members(v1::MEMBER_TABLE_NONE);
      Backoff pause(client::RetryOptions().backoff, join.rank());
      places_.push_back({worlds_.back().get(), std::move(join), std::move(pause)});
    }
  }
}

void Assembly::Connect() {
  for (const auto& channel : channels_) (void)channel->GetState(/*try_to_connect=*/true);
  for (const auto& channel : channels_) {
    DP_CHECK(channel->WaitForConnected(absl::ToChronoTime(absl::Now() + kPatience)));
  }
}

void Assembly::Join() {
  for (Place& place : places_) JoinOne(place);
  unsealed_.Wait();
}

void Assembly::JoinOne(Place& place) {
  Call<v1::JoinResponse>(
      place.join, client::kAnswerSlack,
      [&place](auto... call) { place.worlds->async()->Join(call...); },
      [this, &place](const grpc::Status& status, const v1::JoinResponse& response) {
        if (status.ok()) return Take(place, response.world(), response.ByteSizeLong());
        ++refused_;
        timer_.After(place.pause.Next(), [this, &place] { JoinOne(place); });
      });
}

void Assembly::Take(Place& place, const v1::World& world, uint64_t answer_bytes) {
  answer_bytes_ += answer_bytes;
  if (world.state() == v1::WORLD_STATE_FORMING) return Watch(place, world.version());
  unsealed_.DecrementCount();
}

void Assembly::Watch(Place& place, uint64_t since) {
  v1::WatchWorldRequest request;
  request.set_job(place.join.job());
  request.set_generation(place.join.generation());
  request.set_members(v1::MEMBER_TABLE_NONE);
  request.set_since(since);
  *request.mutable_timeout() = ToProto(client::kLongPoll);
  Call<v1::WatchWorldResponse>(
      request, client::kLongPoll + client::kAnswerSlack,
      [&place](auto... call) { place.worlds->async()->Watch(call...); },
      [this, &place, since](const grpc::Status& status, const v1::WatchWorldResponse& response) {
        if (status.ok()) return Take(place, response.world(), response.ByteSizeLong());
        ++refused_;
        timer_.After(place.pause.Next(), [this, &place, since] { Watch(place, since); });
      });
}

}  // namespace dp::bench
