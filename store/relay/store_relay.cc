#include "store/relay/store_relay.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/program/log.h"
#include "store/awaited_keys.h"

namespace dp {
namespace {

// Calls on their way to the thread: every connection has few, and the server bounds connections.
constexpr size_t kInboxMax = size_t{1} << 20;

// Whether a retry may succeed: the coordinator was out of reach, ended during the call, or is too
// busy. (ResourceExhausted is a limit: a retry does not help.)
bool WorthAsking(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsUnknown(status);
}

bool GenerationIsOver(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
}

}  // namespace

StoreRelay::StoreRelay(StoreLink& link, StoreRelayOptions options, const Clock& clock)
    : link_(link),
      options_(std::move(options)),
      clock_(clock),
      inbox_(kInboxMax),
      backoff_(options_.backoff, options_.seed),
      thread_([this] { Run(); }) {}

StoreRelay::~StoreRelay() {
  inbox_.Close();
  thread_.join();
}

void StoreRelay::Execute(std::vector<StoreOperation> operations, Done done) {
  Ask({++last_caller_, std::move(operations), false, std::move(done)});
}

AsyncStore::Ticket StoreRelay::Await(std::vector<StoreOperation> reads, Done done,
                                     const std::string& peer) {
  const Caller caller = ++last_caller_;
  if (const auto keys = AwaitedKeys(reads); keys.ok()) {
    Ask({caller, std::move(reads), true, std::move(done), peer});
  } else {
    std::move(done)(keys.status());
  }
  return Ticket(caller);
}

void StoreRelay::Ask(Asked asked) {
  if (asked.operations.empty()) return std::move(asked.done)(std::vector<StoreResult>());
  Event event = std::move(asked);
  if (in_turn_ && inbox_.TryPushQuietly(event)) {
    kept_back_ = true;
    if (!in_turn_) EndTurn();  // another thread has ended the turn meanwhile
    return;
  }
  if (inbox_.TryPush(event)) return;
  std::move(std::get<Asked>(event).done)(
      inbox_.closed() ? absl::CancelledError("the relay has ended")
                      : absl::ResourceExhaustedError("the relay has too many calls queued"));
}

void StoreRelay::EndTurn() {
  in_turn_ = false;
  if (kept_back_.exchange(false)) inbox_.Wake();
}

void StoreRelay::Cancel(Ticket ticket) {
  Event event = GivenUp{ticket.value()};
  (void)inbox_.TryPush(event);  // else the end of the relay answers the wait
}

void StoreRelay::Run() {
  pthread_setname_np(pthread_self(), "store-relay");
  absl::Duration patience = absl::ZeroDuration();
  while (!inbox_.closed()) {
    for (Event& event : inbox_.DrainFor(patience)) {
      std::visit([this](auto& each) { On(std::move(each)); }, event);
    }
    const absl::Time now = clock_.Now();
    if (!over_) {
      AskRefusedAgain(now);
      ParkWaits();
      SendBatch(now);
    }
    patience = Patience(now);
  }
  EndCalls();
}

absl::Duration StoreRelay::Patience(absl::Time now) const {
  if (over_) return absl::InfiniteDuration();
  absl::Time next = refused_.empty() ? absl::InfiniteFuture() : refused_.begin()->first;
  if (batch_call_ == nullptr && again_at_ > now) next = std::min(next, again_at_);
  return std::max(next - now, absl::ZeroDuration());
}

void StoreRelay::On(Asked event) {
  if (!failure_.ok()) return std::move(event.done)(failure_);
  const absl::Status fits = ledger_.CheckSize(event.operations);
  if (!fits.ok()) return std::move(event.done)(fits);
  open_.emplace(event.caller, Open{std::move(event.done), clock_.Now(), std::move(event.peer)});
  if (event.wait) {
    ledger_.Await(event.caller, std::move(event.operations));
  } else {
    ledger_.Execute(event.caller, std::move(event.operations));
  }
}

void StoreRelay::On(GivenUp event) {
  if (const auto it = parked_.find(event.caller); it != parked_.end()) it->second->Cancel();
  if (ledger_.Cancel(event.caller)) Tell(event.caller, absl::CancelledError("given up"));
}

void StoreRelay::SendBatch(absl::Time now) {
  if (batch_call_ != nullptr || now < again_at_) return;
  const RelayLedger::Batch* batch = ledger_.batch();
  if (batch == nullptr) return;
  CallBegins();
  batch_call_ = link_.Execute(*batch, [this](absl::StatusOr<RelayLedger::Reply> reply) {
    CallEnds(Replied{std::move(reply)});
  });
}

void StoreRelay::On(Replied event) {
  batch_call_ = nullptr;
  if (over_) return;
  absl::StatusOr<RelayLedger::Reply>& reply = event.reply;
  if (!reply.ok() && WorthAsking(reply.status())) {
    if (trouble_.ok()) {
      Log(Severity::kWarning, "store_relay_waits",
          {{"job", options_.job.value()}, {"reason", reply.status().ToString()}});
    }
    trouble_ = reply.status();
    return TryLater();
  }
  if (!reply.ok())
    return GenerationIsOver(reply.status()) ? Over(reply.status()) : Fail(reply.status());
  auto answers = ledger_.OnReply(*std::move(reply));
  if (!answers.ok()) return Fail(answers.status());
  if (!trouble_.ok()) Log(Severity::kInfo, "store_relay_goes_on", {{"job", options_.job.value()}});
  trouble_ = absl::OkStatus();
  backoff_.Reset();
  Tell(*std::move(answers));
}

void StoreRelay::TryLater() { again_at_ = clock_.Now() + backoff_.Next(); }

void StoreRelay::ParkWaits() {
  for (RelayLedger::Parking& parking : ledger_.TakeParkings()) Park(std::move(parking));
}

void StoreRelay::Park(RelayLedger::Parking parking) {
  CallBegins();
  const Open& open = open_.at(parking.caller);
  const StoreLink::Waiter waiter{clock_.Now() - open.since, open.peer};
  parked_[parking.caller] =
      link_.Await(parking.reads, waiter, [this, caller = parking.caller](Results results) {
        CallEnds(Unparked{caller, std::move(results)});
      });
}

void StoreRelay::On(Unparked event) {
  parked_.erase(event.caller);
  if (over_ || !open_.contains(event.caller)) return;  // cancelled by its caller
  if (event.results.ok()) {
    auto answer = ledger_.OnFound(event.caller, *std::move(event.results));
    if (answer.has_value()) Tell(event.caller, std::move(answer->results));
  } else if (absl::IsInvalidArgument(event.results.status())) {
    if (ledger_.Cancel(event.caller)) Tell(event.caller, event.results.status());
  } else if (absl::IsResourceExhausted(event.results.status())) {
    OnRefused(event.caller, event.results.status());
  } else {
    // Nothing came in time, or the coordinator has gone; the answer to the next batch shows which.
    // All waits end together with the coordinator, and count as one failure.
    if (!absl::IsDeadlineExceeded(event.results.status()) && again_at_ <= clock_.Now()) TryLater();
    ledger_.OnUnparked(event.caller);
  }
}

void StoreRelay::OnRefused(Caller caller, const absl::Status& why) {
  if (!std::exchange(refusal_told_, true)) {
    Log(Severity::kWarning, "store_wait_refused",
        {{"job", options_.job.value()}, {"reason", why.ToString()}});
  }
  Open& open = open_.at(caller);
  if (!open.room_backoff) open.room_backoff.emplace(options_.room_backoff, options_.seed + caller);
  open.ask_again_at = clock_.Now() + open.room_backoff->Next();
  refused_.emplace(open.ask_again_at, caller);
}

void StoreRelay::AskRefusedAgain(absl::Time now) {
  while (!refused_.empty() && refused_.begin()->first <= now) {
    ledger_.OnUnparked(refused_.extract(refused_.begin()).value().second);
  }
}

void StoreRelay::Over(const absl::Status& status) {
  over_ = true;
  Log(Severity::kInfo, "store_over",
      {{"job", options_.job.value()}, {"reason", status.ToString()}});
  if (options_.on_over) options_.on_over(status);
}

void StoreRelay::Fail(const absl::Status& status) {
  failure_ = status;
  Log(Severity::kError, "store_failed",
      {{"job", options_.job.value()}, {"reason", status.ToString()}});
  Tell(ledger_.End(status));
}

void StoreRelay::Tell(std::vector<RelayLedger::Answer> answers) {
  for (RelayLedger::Answer& answer : answers) Tell(answer.caller, std::move(answer.results));
}

void StoreRelay::Tell(Caller caller, Results results) {
  auto node = open_.extract(caller);
  DP_CHECK(!node.empty());
  refused_.erase({node.mapped().ask_again_at, caller});
  std::move(node.mapped().done)(std::move(results));
}

void StoreRelay::EndCalls() {
  if (batch_call_ != nullptr) batch_call_->Cancel();
  for (const auto& [caller, call] : parked_) call->Cancel();
  {
    MutexLock lock(mu_);
    while (calls_ > 0) call_ended_.Wait(mu_);
  }
  const absl::Status ended = absl::CancelledError("the relay has ended");
  for (Event& event : inbox_.DrainFor(absl::ZeroDuration())) {
    if (auto* asked = std::get_if<Asked>(&event)) std::move(asked->done)(ended);
  }
  while (!open_.empty()) Tell(open_.begin()->first, ended);
}

void StoreRelay::CallBegins() {
  MutexLock lock(mu_);
  ++calls_;
}

void StoreRelay::CallEnds(Event event) {
  // An ending relay needs no event. The inbox cannot be full: calls are few.
  DP_CHECK(inbox_.TryPush(event) || inbox_.closed());
  MutexLock lock(mu_);
  --calls_;
  // Under the lock: the relay may be destroyed as soon as the lock is free.
  call_ended_.NotifyAll();
}

}  // namespace dp
