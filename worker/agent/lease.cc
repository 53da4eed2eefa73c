#include "worker/agent/lease.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/timeouts.h"
#include "dp/v1/workers.grpc.pb.h"
#include "proto/convert/time.h"
#include "worker/agent/rank_log.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kLeaseDeadline = absl::Seconds(5);
// Heartbeats per lease. Two in a row may get lost before the lease is at risk.
constexpr int kBeatsPerLease = 4;
constexpr absl::Duration kBetweenBeatsMin = absl::Milliseconds(20);
// A stuck heartbeat must not cost the lease: it times out early enough for another one.
constexpr absl::Duration kBeatDeadlineMin = absl::Milliseconds(250);
// This many heartbeats prove that the holder of our name is a live daemon. One is no proof: after a
// pause of the coordinator, every worker looks as if it had sent one.
constexpr int kBeatsOfAnother = 2;

RankKey KeyOf(const v1::ReportRankRequest& report) {
  return {JobId(report.job()), Generation(report.generation()), report.rank()};
}

void LogEarlierExit(const v1::ReportRankRequest& report, const absl::Status& answer) {
  LogRank(Severity::kInfo, "earlier_exit_reported", KeyOf(report),
          LogField("answer", answer.ToString()));
}

// No other attempt of this registration can succeed. All other errors may pass, even if something
// else than a coordinator answered: a proxy without a backend yet returns UNIMPLEMENTED.
bool IsFinal(const absl::Status& registration) {
  return absl::IsInvalidArgument(registration) || absl::IsFailedPrecondition(registration);
}

}  // namespace

Lease::Lease(client::Connection& connection, Request request, Surroundings surroundings,
             uint64_t seed, Mailbox& mailbox)
    : connection_(connection),
      request_(std::move(request)),
      surroundings_(std::move(surroundings)),
      mailbox_(mailbox),
      backoff_(BackoffOptions{.max = absl::Seconds(1)}, seed) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "lease");
}

Lease::~Lease() { orders_.Close(); }

void Lease::Begin(Incarnation incarnation, std::vector<Incarnation> earlier) {
  Order order = BeginOrder{incarnation, std::move(earlier)};
  const bool taken = orders_.TryPush(order);
  DP_CHECK(taken || orders_.closed());
}

void Lease::Leave() {
  Order order = LeaveOrder{};
  const bool taken = orders_.TryPush(order);
  DP_CHECK(taken || orders_.closed());
}

void Lease::Loop() {
  while (!orders_.closed()) {
    if (const auto incarnation = TakeOrders(absl::InfiniteDuration())) Keep(*incarnation);
  }
}

void Lease::Keep(Incarnation incarnation) {
  if (!Register(incarnation)) return;
  while (Beat()) {
  }
}

bool Lease::Register(Incarnation incarnation) {
  beating_ = false;
  for (;;) {
    const absl::Status status = TryToRegister(incarnation);
    if (status.ok()) return true;
    if (orders_.closed()) return false;
    if (IsFinal(status)) {
      RegistrationFailed(incarnation, status);
      return false;
    }
    if (absl::IsAlreadyExists(status)) {
      NameTaken(status);
    } else {
      trouble_.Failed(status);
      mailbox_.Tell(CoordinatorSilent{});
      if (lease_ > absl::ZeroDuration()) TellHeldIfAbsent();
    }
    if (!Pause(backoff_.Next())) return false;
  }
}

void Lease::RegistrationFailed(Incarnation incarnation, const absl::Status& reason) {
  if (!absl::IsFailedPrecondition(reason)) {
    mailbox_.Tell(RegistrationRefused{reason});
    return;
  }
  // Delayed, because the next incarnation might be rejected as well.
  if (!Pause(backoff_.Next())) return;
  session_.incarnation = incarnation;
  Lose(reason);
}

absl::Status Lease::TryToRegister(Incarnation incarnation) {
  auto request = request_();
  if (!request.ok()) return absl::UnavailableError(request.status().message());
  request->set_incarnation(incarnation.value());
  gpus_sent_ = 0;  // a restarted coordinator has none
  store_clients_sent_ = 0;
  AddGpus(&*request);
  name_ = request->name();
  const bool earlier_gone = surroundings_.earlier_gone && surroundings_.earlier_gone();
  DP_RETURN_IF_ERROR(ReportEarlierExits(earlier_gone));
  if (earlier_gone) {
    for (const Incarnation each : earlier_) request->add_replaces(each.value());
  }
  const absl::Time sent = surroundings_.clock.Now();
  DP_ASSIGN_OR_RETURN(const auto response,
                      connection_.Call(&v1::Workers::Stub::Register, *request, kLeaseDeadline));
  TakeRegistration(*request, response);
  TellHeld(sent);
  return absl::OkStatus();
}

absl::Status Lease::ReportEarlierExits(bool earlier_gone) {
  if (!surroundings_.earlier_exits) return absl::OkStatus();
  if (!earlier_exits_read_) {
    earlier_exits_.clear();
    for (v1::ReportRankRequest& found : surroundings_.earlier_exits()) {
      if (!earlier_exits_reported_.contains(KeyOf(found)))
        earlier_exits_.push_back(std::move(found));
    }
    earlier_exits_read_ = earlier_gone;
  }
  for (; !earlier_exits_.empty(); earlier_exits_.pop_front()) {
    const absl::Status reported =
        connection_.Call(&v1::Workers::Stub::ReportRank, earlier_exits_.front(), kLeaseDeadline)
            .status();
    // Rejected: the coordinator has evicted that daemon, or the job's generation is over.
    if (!reported.ok() && !IsRefusal(reported)) return reported;
    LogEarlierExit(earlier_exits_.front(), reported);
    earlier_exits_reported_.insert(KeyOf(earlier_exits_.front()));
  }
  return absl::OkStatus();
}

void Lease::TakeRegistration(const v1::RegisterRequest& request,
                             const v1::RegisterResponse& response) {
  trouble_.Worked();
  backoff_.Reset();
  holder_silent_for_ = absl::ZeroDuration();
  holder_beats_ = 0;
  taken_.Worked();
  duplicate_.Worked();
  session_ = {response.worker_id(), Incarnation(request.incarnation())};
  epoch_ = response.header().epoch();
  lease_number_ = 0;
  HoldTo(FromProto(response.lease()));
  mailbox_.Tell(Registered{session_, response.name(), request.address()});
}

void Lease::HoldTo(absl::Duration lease) {
  lease_ = lease;
  between_beats_ = std::max(lease / kBeatsPerLease, kBetweenBeatsMin);
}

// Adopts the lease before the next heartbeat names it: from then on the coordinator applies it.
void Lease::TakeLease(const v1::HeartbeatResponse& response) {
  if (response.lease_number() <= lease_number_) return;
  lease_number_ = response.lease_number();
  HoldTo(FromProto(response.lease()));
}

template <typename Sent>
void Lease::AddGpus(Sent* request) {
  if (!surroundings_.gpus_since) return;
  const std::vector<v1::Gpu> gpus = surroundings_.gpus_since(&gpus_sent_);
  if (gpus.empty()) return;
  request->mutable_gpu_list()->Assign(gpus.begin(), gpus.end());
}

void Lease::AddStoreClients(v1::HeartbeatRequest* request) {
  if (!surroundings_.store_clients_since) return;
  auto clients = surroundings_.store_clients_since(&store_clients_sent_);
  if (clients.has_value()) *request->mutable_store_clients() = *std::move(clients);
}

bool Lease::Beat() {
  beating_ = true;
  const bool goes_on = Pause(between_beats_) && SendBeat();
  beating_ = false;
  return goes_on;
}

void Lease::TellLeft() {
  if (!std::exchange(leave_told_, true)) mailbox_.Tell(LeaveTold{});
}

bool Lease::SendBeat() {
  v1::HeartbeatRequest request;
  request.set_worker_id(session_.worker_id);
  request.set_incarnation(session_.incarnation.value());
  for (;;) {
    request.set_leaving(leaving_);
    request.set_lease_number(lease_number_);
    AddGpus(&request);  // without news, the request keeps those of an earlier failed attempt
    AddStoreClients(&request);
    const absl::Time sent = surroundings_.clock.Now();
    const auto response = connection_.Call(&v1::Workers::Stub::Heartbeat, request,
                                           std::max(between_beats_, kBeatDeadlineMin));
    if (leaving_) TellLeft();
    if (response.ok()) {
      trouble_.Worked();
      backoff_.Reset();
      mailbox_.Tell(CoordinatorAnswered{});
      TakeLease(*response);
      TellHeld(sent);
      return response->header().epoch() == epoch_ || Register(session_.incarnation);
    }
    if (orders_.closed()) return false;
    // A daemon whose certificate does not count any more is given up like one that was silent.
    if (IsRefusal(response.status()) || absl::IsUnauthenticated(response.status())) {
      Lose(response.status());
      return false;
    }
    trouble_.Failed(response.status());
    mailbox_.Tell(CoordinatorSilent{});
    TellHeldIfAbsent();
    if (!Pause(std::min(backoff_.Next(), between_beats_))) return false;
  }
}

// The coordinator counts from when it heard the call, which is not before the call was sent.
void Lease::TellHeld(absl::Time sent) {
  held_until_ = sent + IsolationWithin(lease_);
  mailbox_.Tell(LeaseHeld{held_until_});
}

// While nothing listens, nobody can evict this worker. A coordinator that starts later first gives
// every worker a full lease. But the coordinator that is gone may have evicted a worker whose lease
// had run out, and have stored that.
void Lease::TellHeldIfAbsent() {
  if (!surroundings_.coordinator_absent) return;
  const absl::Time asked = surroundings_.clock.Now();
  if (asked >= held_until_) return;
  if (surroundings_.coordinator_absent() && surroundings_.clock.Now() < held_until_) {
    TellHeld(asked);
  }
}

void Lease::Lose(const absl::Status& reason) {
  held_until_ = absl::InfinitePast();
  mailbox_.Tell(LeaseLost{session_.incarnation, reason});
}

// The silence of a dead daemon only grows until its lease expires. It is 0 while a restarted
// coordinator waits for the daemon. This daemon retries in any case: the other one may be stopped
// or get another name.
void Lease::NameTaken(const absl::Status& reason) {
  taken_.Failed(reason);
  const auto listed = connection_.Call(&v1::Workers::Stub::List, {}, kLeaseDeadline);
  if (!listed.ok()) return;
  for (const v1::Worker& worker : listed->workers()) {
    if (worker.name() != name_ || worker.state() != v1::WORKER_STATE_READY) continue;
    const absl::Duration silent_for = FromProto(worker.silent_for());
    const absl::Duration before = std::exchange(holder_silent_for_, silent_for);
    if (silent_for > absl::ZeroDuration() && silent_for < before) ++holder_beats_;
  }
  if (holder_beats_ >= kBeatsOfAnother) duplicate_.Failed(reason);
}

std::optional<Incarnation> Lease::TakeOrders(absl::Duration timeout) {
  std::optional<Incarnation> begin;
  for (const Order& order : orders_.DrainFor(timeout)) {
    if (const auto* incarnation = std::get_if<BeginOrder>(&order)) {
      begin = incarnation->incarnation;
      earlier_ = incarnation->earlier;
    } else {
      leaving_ = true;
      if (!beating_) TellLeft();
    }
  }
  return begin;
}

bool Lease::Pause(absl::Duration duration) {
  DP_CHECK(!TakeOrders(duration).has_value());  // one incarnation at a time
  return !orders_.closed();
}

}  // namespace dp::worker
