#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mutex.h"
#include "store/async_store.h"
#include "store/relay/relay_ledger.h"
#include "store/relay/store_link.h"

namespace dp {

struct StoreRelayOptions {
  JobId job;          // for the log
  uint64_t seed = 0;  // of the back-offs
  BackoffOptions backoff = {.initial = absl::Milliseconds(20), .max = absl::Milliseconds(500)};
  // For waits that the coordinator has no room for: thousands of them must cost it little.
  BackoffOptions room_backoff = {.initial = absl::Milliseconds(200), .max = absl::Seconds(5)};
  // Called once, on the relay's thread, when the coordinator reports that the generation is over.
  std::function<void(const absl::Status&)> on_over = {};
};

// The store of one generation, for all ranks of a host, over one link to the coordinator. Requests
// travel in batches (RelayLedger decides, StoreRelay carries out). While the coordinator is out of
// reach, the relay retries the same batch for as long as it takes. The coordinator applies the
// batch once, so its restart is only a pause. A wait that the coordinator has no room for is
// retried after a pause of its own, and holds up nobody else.
//
// After the generation is over the relay answers nothing until it ends. The programs are being
// stopped, and errors from their store would only hide why. An answer that makes no sense, as from
// a coordinator that has lost its journal, is final: every call fails with it.
//
// Owned by the endpoint that serves the ranks; has one thread. The destructor answers open calls
// with Cancelled. The link and the clock must outlive it. Thread-safe.
class StoreRelay final : public AsyncStore {
 public:
  StoreRelay(StoreLink& link, StoreRelayOptions options, const Clock& clock = Clock::Steady());
  ~StoreRelay() override;

  void Execute(std::vector<StoreOperation> operations, Done done) override;
  using AsyncStore::Await;
  Ticket Await(std::vector<StoreOperation> reads, Done done, const std::string& peer) override;
  void Cancel(Ticket ticket) override;
  void BeginTurn() override { in_turn_ = true; }
  void EndTurn() override;

 private:
  using Caller = RelayLedger::Caller;
  struct Asked {
    Caller caller = 0;
    std::vector<StoreOperation> operations;
    bool wait = false;
    Done done;
    std::string peer = "";
  };
  struct Open {
    Done done;
    absl::Time since;
    std::string peer;
    std::optional<Backoff> room_backoff = {};  // since its first refusal
    absl::Time ask_again_at = {};              // while it is in refused_
  };
  struct GivenUp {
    Caller caller = 0;
  };
  struct Replied {
    absl::StatusOr<RelayLedger::Reply> reply;
  };
  struct Unparked {
    Caller caller = 0;
    Results results;
  };
  using Event = std::variant<Asked, GivenUp, Replied, Unparked>;

  void Ask(Asked asked);

  // All below, except for the count of calls: the relay's thread.
  void Run();
  // From `now`, at which all that was due was done, until something is due again. With another
  // reading of the clock, what has become due since would be missed.
  absl::Duration Patience(absl::Time now) const;
  void On(Asked event);
  void On(GivenUp event);
  void On(Replied event);
  void On(Unparked event);
  void OnRefused(Caller caller, const absl::Status& why);
  void AskRefusedAgain(absl::Time now);
  void SendBatch(absl::Time now);
  void ParkWaits();
  void Park(RelayLedger::Parking parking);
  void TryLater();
  void Over(const absl::Status& status);
  void Fail(const absl::Status& status);
  void Tell(Caller caller, Results results);
  void Tell(std::vector<RelayLedger::Answer> answers);
  void EndCalls();

  void CallBegins() DP_EXCLUDES(mu_);
  // Hands the end of a call to the relay's thread.
  void CallEnds(Event event) DP_EXCLUDES(mu_);

  StoreLink& link_;
  const StoreRelayOptions options_;
  const Clock& clock_;
  std::atomic<Caller> last_caller_{0};
  std::atomic<bool> in_turn_{false};
  std::atomic<bool> kept_back_{false};  // the inbox has calls that did not wake the thread
  BoundedQueue<Event> inbox_;

  // Used by the relay's thread only.
  RelayLedger ledger_;
  std::map<Caller, Open> open_;
  std::shared_ptr<StoreLink::Call> batch_call_;  // null: no batch is in flight
  std::map<Caller, std::shared_ptr<StoreLink::Call>> parked_;
  std::set<std::pair<absl::Time, Caller>> refused_;  // waits, by the time of their retry
  bool refusal_told_ = false;
  Backoff backoff_;
  absl::Time again_at_ = absl::InfinitePast();
  absl::Status trouble_;  // of the latest batch; OK if it was answered
  absl::Status failure_;  // final: the answer to every call
  bool over_ = false;

  Mutex mu_;
  CondVar call_ended_;
  size_t calls_ DP_GUARDED_BY(mu_) = 0;  // in flight

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp
