#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/id.h"
#include "client/connection.h"
#include "worker/agent/events.h"
#include "worker/agent/repeated_reason.h"
#include "worker/core/rank.h"

namespace dp::worker {

// Registers an incarnation and keeps its lease by heartbeats, from a thread of its own, until the
// coordinator refuses it. While the coordinator is away it goes on trying; when the coordinator has
// been restarted (its epoch has changed) it registers the same incarnation again, which changes
// nothing there but what was not journalled. The lease is as long as the coordinator said last. Its
// owner ends the calls under way on `connection` before destroying it.
class Lease {
 public:
  // Makes the request of a registration, without its incarnation; asked before each try. An error
  // counts as a try that got no answer.
  using Request = std::function<absl::StatusOr<v1::RegisterRequest>()>;

  // What else it looks at.
  struct Surroundings {
    const Clock& clock;  // one that nobody sets
    // Whether the coordinator's host answers that nobody listens there; asked when a call got no
    // answer. Null: never known.
    std::function<bool()> coordinator_absent;
    // Whether nothing is left of what earlier incarnations started; asked before each registration.
    // Null: never known.
    std::function<bool()> earlier_gone;
    // What is to be told of the GPUs that was read after reading `number`, which is brought up to
    // date; 0: whatever is known. Null: nothing ever. On the lease's thread.
    std::function<std::vector<v1::Gpu>(uint64_t* number)> gpus_since;
    // Likewise of the ranks' connections to stores; nothing where nothing is news.
    std::function<std::optional<v1::StoreClients>(uint64_t* number)> store_clients_since;
    // Exits of ranks of earlier daemons that the coordinator may not know; no more come once
    // earlier_gone has returned true. On the lease's thread. Null: none.
    std::function<std::vector<v1::ReportRankRequest>()> earlier_exits;
  };

  Lease(client::WorkersConnection& connection, Request request, Surroundings surroundings,
        uint64_t seed, Events& events);
  ~Lease();

  // Registers this incarnation; the one before must be lost, or there was none. The daemons of
  // `earlier` ones are dead: the coordinator need not wait for the end of their leases once nothing
  // is left of what they started. Any thread.
  void Begin(Incarnation incarnation, std::vector<Incarnation> earlier = {});
  // Says with the next heartbeat, which comes at once, and with all later ones that the daemon is
  // shutting down; LeaveTold follows its answer, or comes at once where there is no lease to tell
  // it with. At most once. Any thread.
  void Leave();

 private:
  struct BeginOrder {
    Incarnation incarnation;
    std::vector<Incarnation> earlier;
  };
  struct LeaveOrder {};
  using Order = std::variant<BeginOrder, LeaveOrder>;

  // On the thread. Those that answer false have ended this incarnation, or the daemon is ending.
  void Loop();
  void Keep(Incarnation incarnation);
  bool Register(Incarnation incarnation);
  bool Beat();
  bool SendBeat();
  // The coordinator was heard, or was seen to be none, at a call that was sent at `sent`.
  void TellHeld(absl::Time sent);
  void TellHeldIfAbsent();
  // Puts there what is news of the GPUs.
  template <typename Sent>
  void AddGpus(Sent* request);
  void AddStoreClients(v1::HeartbeatRequest* request);
  void TellLeft();
  absl::Status TryToRegister(Incarnation incarnation);
  // Before the registration, which makes the coordinator lose the daemons that ran these ranks.
  // Errors: those of a call that is to be tried again.
  absl::Status ReportEarlierExits(bool earlier_gone);
  void RegistrationFailed(Incarnation incarnation, const absl::Status& reason);
  void TakeRegistration(const v1::RegisterRequest& request, const v1::RegisterResponse& response);
  // What holds from now on, where that is news.
  void TakeLease(const v1::HeartbeatResponse& response);
  void HoldTo(absl::Duration lease);
  void Lose(const absl::Status& reason);
  // Another incarnation holds the name: a dead one whose lease will expire, or another daemon.
  void NameTaken(const absl::Status& reason);
  // Waits for orders; returns the incarnation to begin, if that is one of them.
  std::optional<Incarnation> TakeOrders(absl::Duration timeout);
  // Waits; an order to leave ends it early. False when the daemon is ending.
  bool Pause(absl::Duration duration);

  client::WorkersConnection& connection_;
  const Request request_;
  const Surroundings surroundings_;
  Events& events_;
  BoundedQueue<Order> orders_{2};  // one of each

  // Owned by the thread.
  Session session_;
  uint64_t epoch_ = 0;
  absl::Duration lease_;
  uint64_t lease_number_ = 0;  // what the coordinator calls it
  absl::Duration between_beats_;
  bool leaving_ = false;
  bool leave_told_ = false;
  uint64_t gpus_sent_ = 0;           // the reading that the coordinator has; 0: none
  uint64_t store_clients_sent_ = 0;  // likewise
  bool beating_ = false;             // a heartbeat is next
  // The registration under way.
  std::vector<Incarnation> earlier_;
  std::deque<v1::ReportRankRequest> earlier_exits_;
  bool earlier_exits_read_ = false;  // all of them
  std::set<RankKey> earlier_exits_reported_;
  std::string name_;
  absl::Duration holder_silent_for_;  // as last seen, of who has the name already
  int holder_beats_ = 0;
  RepeatedReason taken_{"name_taken"};
  RepeatedReason duplicate_{"name_of_a_live_daemon"};
  Backoff backoff_;
  RepeatedReason trouble_{"coordinator_unreachable"};

  std::jthread thread_;
};

}  // namespace dp::worker
