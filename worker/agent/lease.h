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
#include "base/program/repeated_reason.h"
#include "client/connection.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/coordinator_trouble.h"
#include "worker/agent/mailbox.h"
#include "worker/core/rank.h"

namespace dp::worker {

// Registers an incarnation and keeps its lease by heartbeats, from its own thread, until the
// coordinator rejects it. Retries while the coordinator is away. After a restart of the coordinator
// (its epoch has changed), registers the same incarnation again, which restores only what the
// coordinator does not journal. The coordinator's latest answer sets the lease's length. The owner
// cancels the calls in flight on `connection` before it destroys the lease.
class Lease {
 public:
  // Makes a registration's request, without the incarnation. Called before each attempt. An error
  // counts as an attempt without answer.
  using Request = std::function<absl::StatusOr<v1::RegisterRequest>()>;

  // The lease's sources of knowledge.
  struct Surroundings {
    const Clock& clock;  // a clock that nobody sets
    // Whether the coordinator's host reports that nothing listens there. Called when a call got no
    // answer. Null: unknown.
    std::function<bool()> coordinator_absent;
    // Whether nothing is left of the processes that earlier incarnations started. Called before
    // each registration. Null: unknown.
    std::function<bool()> earlier_gone;
    // Readings of the GPUs that are newer than reading `number`, which is updated; 0: the latest
    // ones. Empty if there are none. Called on the lease's thread. Null: never any.
    std::function<std::vector<v1::Gpu>(uint64_t* number)> gpus_since;
    // The ranks' connections to stores, in the same way; absent if nothing changed.
    std::function<std::optional<v1::StoreClients>(uint64_t* number)> store_clients_since;
    // Exits of earlier daemons' ranks that the coordinator may not know. The list is final once
    // earlier_gone has returned true. Called on the lease's thread. Null: none.
    std::function<std::vector<v1::ReportRankRequest>()> earlier_exits;
  };

  Lease(client::Connection& connection, Request request, Surroundings surroundings, uint64_t seed,
        Mailbox& mailbox);
  ~Lease();

  // Registers this incarnation. The previous one, if any, must be lost. The daemons of the
  // `earlier` incarnations are dead: the coordinator need not wait for their leases to expire once
  // all their processes are gone. Any thread.
  void Begin(Incarnation incarnation, std::vector<Incarnation> earlier = {});
  // Announces the shutdown, in a heartbeat at once and in all later ones. LeaveTold follows the
  // answer, or comes at once if there is no lease to send the notice with. Call at most once. Any
  // thread.
  void Leave();

 private:
  struct BeginOrder {
    Incarnation incarnation;
    std::vector<Incarnation> earlier;
  };
  struct LeaveOrder {};
  using Order = std::variant<BeginOrder, LeaveOrder>;

  // On the lease's thread. False: the incarnation is lost, or the lease is being destroyed.
  void Loop();
  void Keep(Incarnation incarnation);
  bool Register(Incarnation incarnation);
  bool Beat();
  bool SendBeat();
  // Extends LeaseHeld: at `sent` or later the coordinator heard a call, or nothing listened there
  // while the lease was held.
  void TellHeld(absl::Time sent);
  void TellHeldIfAbsent();
  // Adds the GPUs' readings if they are new.
  template <typename Sent>
  void AddGpus(Sent* request);
  void AddStoreClients(v1::HeartbeatRequest* request);
  void TellLeft();
  absl::Status TryToRegister(Incarnation incarnation);
  // Called before the registration, which makes the coordinator evict the daemons that ran these
  // ranks. Errors: those of a call to retry.
  absl::Status ReportEarlierExits(bool earlier_gone);
  void RegistrationFailed(Incarnation incarnation, const absl::Status& reason);
  void TakeRegistration(const v1::RegisterRequest& request, const v1::RegisterResponse& response);
  // Adopts the response's lease if its number is newer.
  void TakeLease(const v1::HeartbeatResponse& response);
  void HoldTo(absl::Duration lease);
  void Lose(const absl::Status& reason);
  // Another incarnation holds the name: a dead one whose lease will expire, or a live daemon's.
  void NameTaken(const absl::Status& reason);
  // Waits for orders. Returns the incarnation to begin, if an order names one.
  std::optional<Incarnation> TakeOrders(absl::Duration timeout);
  // Waits; an order to leave ends the wait. False: the lease is being destroyed.
  bool Pause(absl::Duration duration);

  client::Connection& connection_;
  const Request request_;
  const Surroundings surroundings_;
  Mailbox& mailbox_;
  BoundedQueue<Order> orders_{2};  // one of each

  // Owned by the thread.
  Session session_;
  uint64_t epoch_ = 0;
  absl::Duration lease_;
  uint64_t lease_number_ = 0;  // the coordinator's number for it
  absl::Duration between_beats_;
  absl::Time held_until_ = absl::InfinitePast();
  bool leaving_ = false;
  bool leave_told_ = false;
  uint64_t gpus_sent_ = 0;           // the reading that the coordinator has; 0: none
  uint64_t store_clients_sent_ = 0;  // in the same way
  bool beating_ = false;             // a heartbeat is next
  // The registration in flight.
  std::vector<Incarnation> earlier_;
  std::deque<v1::ReportRankRequest> earlier_exits_;
  bool earlier_exits_read_ = false;  // the list is final
  std::set<RankKey> earlier_exits_reported_;
  std::string name_;
  absl::Duration holder_silent_for_;  // the name's holder, as last seen
  int holder_beats_ = 0;
  RepeatedReason taken_{"name_taken"};
  RepeatedReason duplicate_{"name_of_a_live_daemon"};
  Backoff backoff_;
  CoordinatorTrouble trouble_;

  std::jthread thread_;
};

}  // namespace dp::worker
