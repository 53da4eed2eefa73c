#include "server/tcpstore/driver_store_link.h"

#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "server/driver/awaited_reads.h"
#include "server/driver/blocked_call.h"
#include "store/awaited_keys.h"

namespace dp::server {
namespace {

RelayLedger::Reply ToReply(const core::GroupResults& answer) {
  RelayLedger::Reply reply{answer.results, {}};
  for (const core::GroupResults::Refused& refused : answer.refused) {
    reply.refusals.push_back({refused.group, refused.status});
  }
  return reply;
}

// Cancel is a no-op: a batch is answered soon.
class BatchCall final : public StoreLink::Call {
 public:
  void Cancel() override {}
};

class ParkedCall final : public StoreLink::Call {
 public:
  explicit ParkedCall(Driver& driver) : driver_(driver), ticket_(driver.NewTicket()) {}
  void Cancel() override { driver_.Cancel(ticket_); }
  Waiters::Ticket ticket() const { return ticket_; }

 private:
  Driver& driver_;
  const Waiters::Ticket ticket_;
};

// A wait that the relay has no answer to yet, and the reads that find the answer.
struct Awaiting {
  Awaiting(BlockedCall blocked, StoreCallers& callers,
           StoreLink::Done<std::vector<StoreResult>> done)
      : call(std::move(blocked)),
        callers(callers),
        reads(call.reads, AwaitedReads::Mode::kEach),
        done(std::move(done)) {}

  const BlockedCall call;
  StoreCallers& callers;
  AwaitedReads reads;
  StoreLink::Done<std::vector<StoreResult>> done;
  bool asked = false;

  // nullopt: not yet.
  std::optional<AsyncStore::Results> Answer(Waiters::Wake wake, const View& view) {
    const bool last = wake == Waiters::Wake::kDeadline;
    if (wake == Waiters::Wake::kRefused) return view.waiters.CheckRoomInStore(call.job);
    if (wake != Waiters::Wake::kChanged && !last) return absl::CancelledError("the wait was ended");
    const auto store = view.coordinator.store(call.job, call.generation);
    if (!store.ok()) return store.status();
    if (!std::exchange(asked, true)) callers.arrivals.Saw(call, **store);
    if (!reads.AllFound(**store, view.changed) && !last) return std::nullopt;
    callers.arrivals.Answered(call, **store);
    return reads.Results(**store);
  }
};

}  // namespace

DriverStoreLink::DriverStoreLink(Driver& driver, StoreCallers& callers, Options options)
    : driver_(driver), callers_(callers), options_(options) {
  DP_CHECK(options_.incarnation != 0);
}

std::shared_ptr<StoreLink::Call> DriverStoreLink::Execute(const RelayLedger::Batch& batch,
                                                          Done<RelayLedger::Reply> done) {
  core::StoreBatch command{options_.job,   options_.generation, 0,
                           batch.sequence, batch.operations,    batch.groups};
  if (batch.sequence != 0) command.client = options_.incarnation;
  const auto tell = std::make_shared<Done<RelayLedger::Reply>>(std::move(done));
  const absl::Status queued =
      driver_.Submit(std::move(command), [tell](const core::Outcome& outcome, const View&) {
        auto& told = *tell;
        if (!outcome.status.ok()) return std::move(told)(outcome.status);
        std::move(told)(ToReply(std::get<core::GroupResults>(outcome.reply)));
      });
  auto& told = *tell;
  if (!queued.ok()) std::move(told)(queued);
  return std::make_shared<BatchCall>();
}

std::shared_ptr<StoreLink::Call> DriverStoreLink::Await(const std::vector<StoreOperation>& reads,
                                                        const Waiter& waiter,
                                                        Done<std::vector<StoreResult>> done) {
  auto call = std::make_shared<ParkedCall>(driver_);
  if (const absl::Status awaitable = AwaitedKeys(reads).status(); !awaitable.ok()) {
    std::move(done)(awaitable);
    return call;
  }
  BlockedCall blocked{.job = options_.job,
                      .generation = options_.generation,
                      .who = "a rank",
                      .peer = waiter.peer,
                      .waited = waiter.waited,
                      .reads = reads,
                      .since = {}};
  const auto awaiting = std::make_shared<Awaiting>(blocked, callers_, std::move(done));
  const absl::Status queued = driver_.Wait(
      call->ticket(), StoreTopics(options_.job, reads), absl::InfiniteDuration(),
      [awaiting](Waiters::Wake wake, const View& view) {
        auto answer = awaiting->Answer(wake, view);
        if (answer.has_value()) std::move(awaiting->done)(*std::move(answer));
        return answer.has_value();
      },
      std::move(blocked));
  if (!queued.ok()) std::move(awaiting->done)(queued);
  return call;
}

}  // namespace dp::server
