#include "worker/engine/collectives/hierarchical/host_steps.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

// An end of a connection shows at once.
constexpr absl::Duration kExplainedWithin = absl::Milliseconds(500);
// A peer that waits for another host gives up at the deadline, and notes why before the wait for
// that peer ends.
constexpr absl::Duration kNotedWithin = absl::Seconds(1);

Collective Barrier() { return {.shape = {.kind = CallShape::Kind::kBarrier}}; }

}  // namespace

absl::Status HostSteps::MeetEverybody(const Collective& call) {
  Collective meeting{.shape = call.shape, .sent = call.sent, .received = call.received};
  meeting.only_meets = true;
  const auto met = StartBetween(meeting);
  if (self_.local == nullptr) return met->Wait();
  self_.own_staging().SetDeadline(Clock::SinceBoot() + Left());
  // At the same time: a rank that is missing here is missing there too.
  const auto met_on_host = StartOnHost(Barrier());
  if (absl::Status status = met->Wait(); !status.ok()) return status;
  if (absl::Status status = Explained(met_on_host->Wait()); !status.ok()) return status;
  absl::Duration earliest = absl::InfiniteDuration();
  for (const int r : self_.beside()) earliest = std::min(earliest, self_.staging[r].deadline());
  deadline_ = std::min(deadline_, Clock::Steady().Now() + earliest - Clock::SinceBoot());
  return absl::OkStatus();
}

absl::Status HostSteps::MeetOnHost() const {
  if (self_.local == nullptr) return absl::OkStatus();
  return Explained(StartOnHost(Barrier())->Wait());
}

std::unique_ptr<Work> HostSteps::Between(std::vector<absl::Span<const uint8_t>> sent,
                                         std::vector<absl::Span<uint8_t>> received) const {
  return StartBetween({.shape = {.kind = CallShape::Kind::kExchange},
                       .sent = std::move(sent),
                       .received = std::move(received)});
}

std::unique_ptr<Work> HostSteps::StartBetween(const Collective& call) const {
  return self_.between->Start(Named(call, Left()));
}

std::unique_ptr<Work> HostSteps::StartOnHost(const Collective& call) const {
  return self_.local->Start(Named(call, Left() + kNotedWithin));
}

absl::Status HostSteps::Explained(const absl::Status& on_host) const {
  if (!absl::IsUnavailable(on_host)) return on_host;
  if (const auto missing = GivenUpByPeers())
    return WithMissing(absl::DeadlineExceededError("a peer gave up"), *missing);
  const absl::Duration within = PeersSawDifference() ? Left() : kExplainedWithin;
  absl::Status answer = self_.between->Start(Named(Barrier(), within))->Wait();
  const bool explains = absl::IsUnavailable(answer) || absl::IsInvalidArgument(answer);
  return explains ? answer : on_host;
}

absl::Duration HostSteps::Left() const { return deadline_ - Clock::Steady().Now(); }

Collective HostSteps::Named(Collective call, absl::Duration timeout) const {
  call.step_of = name_;
  call.number = number_;
  call.timeout = timeout;
  return call;
}

bool HostSteps::PeersSawDifference() const {
  const std::vector<int>& beside = self_.beside();
  return std::any_of(beside.begin(), beside.end(),
                     [&](int peer) { return self_.staging[peer].saw_difference(); });
}

std::optional<std::vector<int>> HostSteps::GivenUpByPeers() const {
  bool any = false;
  std::vector<int> missing;
  for (int rank = 0; rank < self_.plan->ranks(); ++rank) {
    const auto gave_up = [&](int peer) { return self_.staging[peer].GaveUp(rank); };
    if (std::none_of(self_.beside().begin(), self_.beside().end(), gave_up)) continue;
    any = true;
    if (rank != self_.rank) missing.push_back(rank);
  }
  if (!any) return std::nullopt;
  return missing;
}

}  // namespace dp::engine
