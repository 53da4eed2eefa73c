#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "server/core/coordinator.h"
#include "server/core/invariants.h"
#include "server/driver/heartbeats.h"
#include "server/driver/waiters.h"
#include "server/policy/late_ranks.h"
#include "server/policy/liveness.h"
#include "server/policy/placement.h"
#include "tests/sim/environment.h"

namespace dp::sim {

// The coordinator process in virtual time: the real machine, placement, liveness and waiters.
// Around them it does the driver's work (server/driver/driver.h), with a disk that takes time to
// sync and may be cut off in the middle. Serves a batch at a time, and answers after the sync.
class SimulatedDriver {
 public:
  static constexpr absl::Duration kLease = absl::Seconds(5);
  static constexpr int kAnnSlotsMax = 3;

  explicit SimulatedDriver(Environment& environment) : env_(environment) {
    policy_.limits.users["ann"] = {.slots = kAnnSlotsMax};
    policy_.limits.each_queue = core::Limit{.jobs = 4};
  }

  // Replays the disk and starts an epoch.
  void Start();
  // kill -9: any prefix of the commands that are not synced may have reached the disk.
  void Crash();
  // Crashes the next time that commands are in flight to the disk.
  void CrashInNextSync();
  // SIGSTOP for `duration`.
  void Freeze(absl::Duration duration);
  bool up() const { return up_; }
  absl::Time now() const { return env_.events.now(); }

  // As in the driver, each item is answered in its turn, or never if the process dies before.
  void Submit(core::Action action, std::function<void(const core::Outcome&)> done);
  // `done` gets the lease if it is renewed at once; nothing if the driver had to look.
  using OnHeard = std::function<void(std::optional<core::Liveness::Lease>)>;
  void Hear(WorkerId worker, Incarnation incarnation, uint64_t lease_number, OnHeard done);
  // Answers once `ready` is true, or after `timeout`. `ready` may only change with the topics.
  void Wait(std::vector<core::Topic> topics, absl::Duration timeout, std::function<bool()> ready,
            std::function<void()> answer);

  const core::Coordinator& coordinator() const { return *coordinator_; }
  const core::Liveness& liveness() const { return *liveness_; }
  // How many workers with a short lease were lost.
  int short_leases_lost() const { return short_leases_lost_; }
  // How many jobs were made to leave.
  int departures() const { return departures_; }
  // Called whenever the state may have changed.
  void OnChange(std::function<void()> check) { on_change_ = std::move(check); }

 private:
  struct CommandItem {
    core::Action action;
    std::function<void(const core::Outcome&)> done;
    core::Outcome outcome;
  };
  struct HearItem {
    WorkerId worker;
    Incarnation incarnation;
    uint64_t lease_number = 0;
    OnHeard done;
  };
  struct WaitItem {
    std::vector<core::Topic> topics;
    absl::Duration timeout;
    std::function<bool()> ready;
    std::function<void()> answer;
  };
  using Item = std::variant<CommandItem, HearItem, WaitItem>;

  void Push(Item item);
  void Tick();
  void Serve();
  core::Outcome Apply(core::Action action);
  void Lose(core::LoseWorker verdict);
  void ApplyVerdicts();
  // Applies a policy's verdict, which must be accepted.
  void ApplyVerdict(core::Action verdict);
  void Sync(std::vector<Item> items);
  void Answer(std::vector<Item>& items);
  void Park(WaitItem wait);
  void Acknowledge();
  void CheckState();
  // Checks the jobs that have to leave for others.
  void CheckDepartures(const std::vector<core::Departure>& departures);
  void CheckRoom(const std::vector<core::Departure>& departures);
  int RoomOn(const core::Worker& worker) const;
  // Checks that a job that names workers has equally many ranks on each.
  void CheckGangs();
  // Checks that nobody holds more than the policy allows.
  void CheckLimits();
  // Runs `event` after `delay`, unless the process dies before.
  void Later(absl::Duration delay, std::function<void()> event);

  Environment& env_;
  core::PlacementPolicy policy_;
  std::function<void()> on_change_ = [] {};

  // On disk.
  std::vector<core::Command> disk_;
  // All that clients have seen, of all incarnations.
  Revision acknowledged_;
  uint64_t acknowledged_digest_ = 0;
  core::Invariants invariants_;
  int departures_ = 0;
  int short_leases_lost_ = 0;

  // In the memory of the current process.
  uint64_t life_ = 0;
  bool up_ = false;
  bool busy_ = false;  // syncing or frozen
  bool crash_in_next_sync_ = false;
  absl::Time frozen_until_ = absl::InfinitePast();
  std::optional<core::Coordinator> coordinator_;
  std::optional<core::Liveness> liveness_;
  std::optional<server::Heartbeats> heartbeats_;
  core::LateRanks late_ranks_;
  std::optional<server::Waiters> waiters_;
  std::map<server::Waiters::Ticket, std::function<bool()>> parked_;
  server::Waiters::Ticket last_ticket_ = 0;
  std::vector<Item> queue_;
  std::vector<core::Command> unsynced_;
  std::vector<core::Topic> changed_;
};

}  // namespace dp::sim
