#include "worker/agent/lease.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/timeouts.h"
#include "proto/convert/time.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kLeaseDeadline = absl::Seconds(5);
// Heartbeats per lease. Two may get lost, and still none is missed.
constexpr int kBeatsPerLease = 4;
constexpr absl::Duration kBetweenBeatsMin = absl::Milliseconds(20);
// A heartbeat whose answer is stuck must not cost the lease: it is given up in time for another.
constexpr absl::Duration kBeatDeadlineMin = absl::Milliseconds(250);
// After so many heartbeats the holder of our name is another daemon. A coordinator that has just
// been restarted makes every worker look as if it had beaten once.
constexpr int kBeatsOfAnother = 2;

}  // namespace

Lease::Lease(client::WorkersConnection& connection, Request request, Surroundings surroundings,
             uint64_t seed, Events& events)
    : connection_(connection),
      request_(std::move(request)),
      surroundings_(std::move(surroundings)),
      events_(events),
      backoff_(BackoffOptions{.max = absl::Seconds(1)}, seed) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "lease");
}

Lease::~Lease() { orders_.Close(); }

void Lease::Begin(Incarnation incarnation) {
  Order order = incarnation;
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
    const bool taken = absl::IsAlreadyExists(status);
    if (IsRefusal(status) || (taken && HolderLives())) {
      RegistrationFailed(incarnation, status);
      return false;
    }
    if (taken) {
      taken_.Failed(status);
    } else {
      trouble_.Failed(status);
      events_.Tell(CoordinatorSilent{});
      if (lease_ > absl::ZeroDuration()) TellHeldIfAbsent();
    }
    if (!Pause(backoff_.Next())) return false;
  }
}

void Lease::RegistrationFailed(Incarnation incarnation, const absl::Status& reason) {
  if (!absl::IsFailedPrecondition(reason)) {
    events_.Tell(RegistrationRefused{reason});
    return;
  }
  // Not at once: the next incarnation might be refused as well.
  if (!Pause(backoff_.Next())) return;
  session_.incarnation = incarnation;
  Lose(reason);
}

absl::Status Lease::TryToRegister(Incarnation incarnation) {
  auto request = request_();
  if (!request.ok()) return absl::UnavailableError(request.status().message());
  request->set_incarnation(incarnation.value());
  gpus_sent_ = 0;  // a coordinator that was restarted has none
  store_clients_sent_ = 0;
  AddGpus(&*request);
  name_ = request->name();
  const absl::Time sent = surroundings_.clock.Now();
  DP_ASSIGN_OR_RETURN(const auto response, connection_.Register(*request, kLeaseDeadline));
  TakeRegistration(*request, response);
  TellHeld(sent);
  return absl::OkStatus();
}

void Lease::TakeRegistration(const v1::RegisterRequest& request,
                             const v1::RegisterResponse& response) {
  trouble_.Worked();
  backoff_.Reset();
  holder_silent_for_ = absl::ZeroDuration();
  holder_beats_ = 0;
  taken_.Worked();
  session_ = {response.worker_id(), Incarnation(request.incarnation())};
  epoch_ = response.header().epoch();
  lease_number_ = 0;
  HoldTo(FromProto(response.lease()));
  events_.Tell(Registered{session_, response.name(), request.address()});
}

void Lease::HoldTo(absl::Duration lease) {
  lease_ = lease;
  between_beats_ = std::max(lease / kBeatsPerLease, kBetweenBeatsMin);
}

// Before the next heartbeat names it: from then on the coordinator holds this worker to it.
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
  if (!std::exchange(leave_told_, true)) events_.Tell(LeaveTold{});
}

bool Lease::SendBeat() {
  v1::HeartbeatRequest request;
  request.set_worker_id(session_.worker_id);
  request.set_incarnation(session_.incarnation.value());
  for (;;) {
    request.set_leaving(leaving_);
    request.set_lease_number(lease_number_);
    AddGpus(&request);  // else what an earlier try could not tell stays there
    AddStoreClients(&request);
    const absl::Time sent = surroundings_.clock.Now();
    const auto response =
        connection_.Heartbeat(request, std::max(between_beats_, kBeatDeadlineMin));
    if (leaving_) TellLeft();
    if (response.ok()) {
      trouble_.Worked();
      backoff_.Reset();
      events_.Tell(CoordinatorAnswered{});
      TakeLease(*response);
      TellHeld(sent);
      return response->header().epoch() == epoch_ || Register(session_.incarnation);
    }
    if (orders_.closed()) return false;
    if (IsRefusal(response.status())) {
      Lose(response.status());
      return false;
    }
    trouble_.Failed(response.status());
    events_.Tell(CoordinatorSilent{});
    TellHeldIfAbsent();
    if (!Pause(std::min(backoff_.Next(), between_beats_))) return false;
  }
}

// What the coordinator counts from is its hearing, which is no earlier than the sending.
void Lease::TellHeld(absl::Time sent) { events_.Tell(LeaseHeld{sent + IsolationWithin(lease_)}); }

// Where nobody listens nobody can give the lease up; and whoever listens later gives every worker a
// full term first.
void Lease::TellHeldIfAbsent() {
  if (!surroundings_.coordinator_absent) return;
  const absl::Time asked = surroundings_.clock.Now();
  if (surroundings_.coordinator_absent()) TellHeld(asked);
}

void Lease::Lose(const absl::Status& reason) {
  events_.Tell(LeaseLost{session_.incarnation, reason, HasSuccessor()});
}

// A worker whose lease is lost is listed as lost; one that is not although this incarnation was
// refused belongs to another daemon now.
bool Lease::HasSuccessor() {
  const auto listed = connection_.ListWorkers({}, kLeaseDeadline);
  if (!listed.ok()) return false;
  return std::any_of(listed->workers().begin(), listed->workers().end(), [&](const auto& worker) {
    return worker.id() == session_.worker_id && worker.state() != v1::WORKER_STATE_LOST;
  });
}

// It may be the life before ours on this host, killed a moment ago: then its silence only grows,
// until its lease has run out. One that is shutting down still beats, but will be gone.
bool Lease::HolderLives() {
  const auto listed = connection_.ListWorkers({}, kLeaseDeadline);
  if (!listed.ok()) return false;
  for (const v1::Worker& worker : listed->workers()) {
    if (worker.name() != name_ || worker.state() != v1::WORKER_STATE_READY) continue;
    const absl::Duration silent_for = FromProto(worker.silent_for());
    if (silent_for < std::exchange(holder_silent_for_, silent_for)) ++holder_beats_;
  }
  return holder_beats_ >= kBeatsOfAnother;
}

std::optional<Incarnation> Lease::TakeOrders(absl::Duration timeout) {
  std::optional<Incarnation> begin;
  for (const Order& order : orders_.DrainFor(timeout)) {
    if (const auto* incarnation = std::get_if<Incarnation>(&order)) {
      begin = *incarnation;
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
