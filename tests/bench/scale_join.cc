#include "tests/bench/scale_join.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "proto/convert/time.h"
#include "tests/bench/scale_call.h"

namespace dp::bench {
namespace {

// As client/long_poll.h and client/retry_policy.h have them.
constexpr absl::Duration kWorldWatch = absl::Seconds(20);
constexpr absl::Duration kAnswerSlack = absl::Seconds(10);
constexpr absl::Duration kPauseMin = absl::Milliseconds(100);
constexpr absl::Duration kPauseMax = absl::Seconds(2);

absl::Duration PauseAfter(int tries) {
  return std::min(kPauseMin * (1 << std::min(tries, 10)), kPauseMax);
}

}  // namespace

void Assembly::ReportStarted() {
  Begin(fleet_.hosts().size() * fleet_.slots());
  for (const auto& host : fleet_.hosts()) {
    for (const v1::AssignedRank& rank : host->assignment().ranks()) {
      v1::ReportRankRequest report;
      report.set_worker_id(host->worker_id());
      report.set_incarnation(host->incarnation());
      report.set_job(rank.job());
      report.set_generation(rank.generation());
      report.set_rank(rank.rank());
      report.set_state(v1::RANK_STATE_STARTED);
      report.set_pid(1000 + rank.rank());
      Started(*host, std::move(report));
    }
  }
  Await();
}

void Assembly::Started(Host& host, v1::ReportRankRequest report) {
  Call<v1::ReportRankResponse>(
      report, kAnswerSlack, [&host](auto... call) { host.workers().async()->ReportRank(call...); },
      [this, &host, report](const grpc::Status& status, const v1::ReportRankResponse&) {
        if (status.ok()) return Done();
        fleet_.timer().After(kPauseMin, [this, &host, report] { Started(host, report); });
      });
}

absl::Duration Assembly::Join() {
  std::vector<Place> places;
  for (const auto& host : fleet_.hosts()) {
    for (const v1::AssignedRank& rank : host->assignment().ranks()) {
      Place& place = places.emplace_back();
      place.host = host.get();
      place.join.set_job(rank.job());
      place.join.set_generation(rank.generation());
      place.join.set_rank(rank.rank());
      place.join.set_tells_first_step(rank.rank() == 0);
      place.join.set_members(v1::MEMBER_TABLE_NONE);
    }
  }
  Begin(places.size());
  const absl::Time began = absl::Now();
  for (const Place& place : places) JoinOne(place, 0);
  Await();
  return absl::Now() - began;
}

void Assembly::JoinOne(const Place& place, int tries) {
  Call<v1::JoinResponse>(
      place.join, kAnswerSlack,
      [&place](auto... call) { place.host->worlds().async()->Join(call...); },
      [this, place, tries](const grpc::Status& status, const v1::JoinResponse& response) {
        if (status.ok()) return Take(place, response.world(), response.ByteSizeLong());
        ++refused_;
        fleet_.timer().After(PauseAfter(tries),
                             [this, place, tries] { JoinOne(place, tries + 1); });
      });
}

void Assembly::Take(const Place& place, const v1::World& world, uint64_t answer_bytes) {
  answer_bytes_ += answer_bytes;
  if (world.state() == v1::WORLD_STATE_FORMING) return Watch(place, world.version(), 0);
  Done();
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
      [&place](auto... call) { place.host->worlds().async()->Watch(call...); },
      [this, place, since, tries](const grpc::Status& status,
                                  const v1::WatchWorldResponse& response) {
        if (status.ok()) return Take(place, response.world(), response.ByteSizeLong());
        ++refused_;
        fleet_.timer().After(PauseAfter(tries),
                             [this, place, since, tries] { Watch(place, since, tries + 1); });
      });
}

void Assembly::Begin(size_t calls) {
  MutexLock lock(mu_);
  open_ = calls;
}

void Assembly::Done() {
  MutexLock lock(mu_);
  if (--open_ == 0) changed_.NotifyAll();
}

void Assembly::Await() {
  MutexLock lock(mu_);
  while (open_ > 0) changed_.Wait(mu_);
}

}  // namespace dp::bench
