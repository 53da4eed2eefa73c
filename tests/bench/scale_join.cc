#include "tests/bench/scale_join.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "proto/convert/time.h"
#include "tests/bench/scale_call.h"
#include "tests/bench/scale_fleet.h"

namespace dp::bench {
namespace {

// As client/long_poll.h and client/retry_policy.h have them.
constexpr absl::Duration kWorldWatch = absl::Seconds(20);
constexpr absl::Duration kAnswerSlack = absl::Seconds(10);
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kPauseMin = absl::Milliseconds(100);
constexpr absl::Duration kPauseMax = absl::Seconds(2);

absl::Duration PauseAfter(int tries) {
  return std::min(kPauseMin * (1 << std::min(tries, 10)), kPauseMax);
}

}  // namespace

Assembly::Assembly(const std::string& address, uint64_t job, int hosts, int slots)
    : unsealed_(hosts * slots) {
  for (int host = 0; host < hosts; ++host) {
    channels_.push_back(bench::Connect(address));
    worlds_.push_back(v1::Worlds::NewStub(channels_.back()));
    for (int slot = 0; slot < slots; ++slot) {
      Place& place = places_.emplace_back();
      place.worlds = worlds_.back().get();
      place.join.set_job(job);
      place.join.set_generation(1);
      place.join.set_rank(host * slots + slot);
      place.join.set_tells_first_step(place.join.rank() == 0);
      place.join.set_members(v1::MEMBER_TABLE_NONE);
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
  for (const Place& place : places_) JoinOne(place, 0);
  unsealed_.Wait();
}

void Assembly::JoinOne(const Place& place, int tries) {
  Call<v1::JoinResponse>(
      place.join, kAnswerSlack, [&place](auto... call) { place.worlds->async()->Join(call...); },
      [this, place, tries](const grpc::Status& status, const v1::JoinResponse& response) {
        if (status.ok()) return Take(place, response.world(), response.ByteSizeLong());
        ++refused_;
        timer_.After(PauseAfter(tries), [this, place, tries] { JoinOne(place, tries + 1); });
      });
}

void Assembly::Take(const Place& place, const v1::World& world, uint64_t answer_bytes) {
  answer_bytes_ += answer_bytes;
  if (world.state() == v1::WORLD_STATE_FORMING) return Watch(place, world.version(), 0);
  unsealed_.DecrementCount();
}

void Assembly::Watch(const Place& place, uint64_t since, int tries) {
  v1::WatchWorldRequest request;
  request.set_job(place.join.job());
  request.set_generation(place.join.generation());
  request.set_members(v1::MEMBER_TABLE_NONE);
  request.set_since(since);
  *request.mutable_timeout() = ToProto(kWorldWatch);
  Call<v1::WatchWorldResponse>(
      request, kWorldWatch + kAnswerSlack,
      [&place](auto... call) { place.worlds->async()->Watch(call...); },
      [this, place, since, tries](const grpc::Status& status,
                                  const v1::WatchWorldResponse& response) {
        if (status.ok()) return Take(place, response.world(), response.ByteSizeLong());
        ++refused_;
        timer_.After(PauseAfter(tries),
                     [this, place, since, tries] { Watch(place, since, tries + 1); });
      });
}

}  // namespace dp::bench
