#include "tests/sim/simulated_driver.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/policy/handovers.h"
#include "server/policy/liveness.h"
#include "server/policy/predecessors.h"
#include "server/policy/verdicts.h"
#include "tests/journals/reload.h"

namespace dp::sim {
namespace {

constexpr server::Waiters::Capacity kWaitersMax = {
    .watches = 1000, .in_stores = 1000, .in_one_store = 1000};
constexpr absl::Duration kTickMin = absl::Milliseconds(10);

}  // namespace

void SimulatedDriver::Start() {
  up_ = true;
  coordinator_.emplace();
  liveness_.emplace(kLease);
  heartbeats_.emplace();
  late_ranks_ = {};
  waiters_.emplace(kWaitersMax);
  // Commands that were not acknowledged may be lost. Acknowledged state never goes back.
  invariants_ = {};
  bool acknowledged_seen = !acknowledged_.valid();
  for (const core::Command& command : disk_) {
    coordinator_->Apply(command);
    if (coordinator_->revision() != acknowledged_) continue;
    acknowledged_seen = true;
    CheckState();
    env_.Expect(coordinator_->StateDigest() == acknowledged_digest_,
                "replay gives another state than the one that was acknowledged");
  }
  env_.Expect(acknowledged_seen, "an acknowledged command did not survive a crash");
  // Continues from a snapshot, as a real process may.
  const uint64_t digest = coordinator_->StateDigest();
  coordinator_.emplace(reload::Reload(coordinator_->state()));
  env_.Expect(coordinator_->StateDigest() == digest, "a snapshot holds another state");
  Apply(core::StartEpoch{});
  for (const core::Worker* worker : coordinator_->workers()) {
    if (worker->ready()) liveness_->Expect(worker->id, worker->incarnation, env_.events.now());
  }
  ApplyVerdicts();
  disk_.insert(disk_.end(), unsynced_.begin(), unsynced_.end());
  unsynced_.clear();
  changed_.clear();
  CheckState();
  heartbeats_->Publish(*coordinator_, *liveness_);
  Tick();
  env_.Tell(absl::StrCat("coordinator up, epoch ", coordinator_->epoch().ToString()));
}

void SimulatedDriver::Crash() {
  const int kept = env_.dice.Below(static_cast<int>(unsynced_.size()) + 1);
  env_.Tell(absl::StrCat("coordinator killed, ", unsynced_.size() - kept, " commands not synced"));
  disk_.insert(disk_.end(), unsynced_.begin(), unsynced_.begin() + kept);
  ++life_;
  up_ = busy_ = crash_in_next_sync_ = false;
  frozen_until_ = absl::InfinitePast();
  waiters_.reset();
  heartbeats_.reset();
  parked_.clear();
  queue_.clear();
  unsynced_.clear();
  changed_.clear();
}

void SimulatedDriver::CrashInNextSync() { crash_in_next_sync_ = true; }

void SimulatedDriver::Freeze(absl::Duration duration) {
  env_.Tell(absl::StrCat("coordinator frozen for ", absl::FormatDuration(duration)));
  frozen_until_ = env_.events.now() + duration;
  Later(duration, [this] { Serve(); });
}

void SimulatedDriver::Submit(core::Action action, std::function<void(const core::Outcome&)> done) {
  Push(CommandItem{std::move(action), std::move(done), {}});
}

// A slow disk holds up the driver, but not the threads that answer heartbeats.
void SimulatedDriver::Hear(WorkerId worker, Incarnation incarnation, uint64_t lease_number,
                           OnHeard done) {
  const absl::Time now = env_.events.now();
  if (up_ && now >= frozen_until_ && env_.plant != Plant::kShortenAtOnce) {
    if (const auto renewal = heartbeats_->Note({worker, incarnation, now, lease_number})) {
      return done(renewal->lease);
    }
  }
  Push(HearItem{worker, incarnation, lease_number, std::move(done)});
}

void SimulatedDriver::Wait(std::vector<core::Topic> topics, absl::Duration timeout,
                           std::function<bool()> ready, std::function<void()> answer) {
  Push(WaitItem{std::move(topics), timeout, std::move(ready), std::move(answer)});
}

void SimulatedDriver::Push(Item item) {
  queue_.push_back(std::move(item));
  Later(absl::ZeroDuration(), [this] { Serve(); });
}

void SimulatedDriver::Tick() {
  Serve();
  // A driver that is frozen has not looked when it should.
  const absl::Duration until_look = liveness_->next_look() - env_.events.now();
  Later(std::max(until_look, kTickMin), [this] { Tick(); });
}

void SimulatedDriver::Serve() {
  if (busy_ || env_.events.now() < frozen_until_) return;
  std::vector<Item> items = std::exchange(queue_, {});
  heartbeats_->TellLiveness(*coordinator_, *liveness_, env_.events.now());
  for (Item& item : items) {
    if (auto* command = std::get_if<CommandItem>(&item)) {
      if (const auto* worker = std::get_if<core::RegisterWorker>(&command->action)) {
        for (core::LoseWorker& lost :
             core::PredecessorsOf(*worker, *coordinator_, *liveness_, env_.events.now())) {
          Lose(std::move(lost));
        }
      }
      command->outcome = Apply(std::move(command->action));
    }
    if (const auto* hear = std::get_if<HearItem>(&item)) {
      if (coordinator_->CheckWorker(hear->worker, hear->incarnation).ok()) {
        const uint64_t known = env_.plant == Plant::kShortenAtOnce
                                   ? liveness_->offer(hear->worker).number
                                   : hear->lease_number;
        liveness_->Hear(hear->worker, hear->incarnation, env_.events.now(), known);
      }
    }
  }
  ApplyVerdicts();
  CheckState();
  Sync(std::move(items));
}

void SimulatedDriver::Lose(core::LoseWorker verdict) {
  // One event at a time: no heartbeat can have come since TellLiveness.
  env_.Expect(heartbeats_->Revoke(verdict.worker), "a worker that was heard of is lost");
  Apply(std::move(verdict));
}

core::Outcome SimulatedDriver::Apply(core::Action action) {
  core::Command command{env_.events.now(), std::move(action)};
  core::Outcome outcome = coordinator_->Apply(command);
  changed_.insert(changed_.end(), outcome.changed.begin(), outcome.changed.end());
  if (const auto* registered = std::get_if<core::RegisterWorker>(&command.action)) {
    const auto* worker = std::get_if<WorkerId>(&outcome.reply);
    if (outcome.status.ok() && worker != nullptr) {
      liveness_->Welcome(*worker, registered->incarnation, env_.events.now());
    }
  } else if (const auto* lost = std::get_if<core::LoseWorker>(&command.action)) {
    liveness_->Forget(lost->worker);
  }
  if (outcome.journal) unsynced_.push_back(std::move(command));
  return outcome;
}

void SimulatedDriver::ApplyVerdicts() {
  std::vector<core::LoseWorker> overdue;
  const absl::Time now = env_.events.now();
  if (now >= liveness_->next_look()) overdue = liveness_->Overdue(now);
  for (core::LoseWorker& verdict : overdue) {
    env_.Tell(absl::StrCat("worker ", verdict.worker.ToString(), " lost: ", verdict.reason));
    short_leases_lost_ += liveness_->lease(verdict.worker) < kLease;
    Lose(std::move(verdict));
  }
  const core::Placement placement =
      core::ApplyVerdicts(*coordinator_, *liveness_, late_ranks_, policy_, env_.events.now(),
                          [this](core::Action verdict) { ApplyVerdict(std::move(verdict)); });
  CheckDepartures(placement.leave);
  for (core::Action& ask : core::AskToLeave(*coordinator_, placement.leave, env_.events.now())) {
    ApplyVerdict(std::move(ask));
  }
  CheckRoom(placement.leave);
  core::OfferLeases(*coordinator_, *liveness_, env_.events.now());
}

void SimulatedDriver::CheckDepartures(const std::vector<core::Departure>& departures) {
  for (const core::Departure& departure : departures) {
    env_.Tell(absl::StrCat("job ", departure.job.ToString(), " is to leave: ", departure.reason));
    ++departures_;
    const core::Job& victim = *coordinator_->job(departure.job);
    if (departure.cause == core::HandoverCause::kGrow) {
      const absl::Duration age = env_.events.now() - *victim.running_at;
      env_.Expect(victim.world_size() < victim.spec.ranks_max(), "a job of full size is to grow");
      env_.Expect(age >= victim.spec.scheduling.grow_after, "a job is to grow too soon");
    }
    if (!departure.preempted_by.valid()) continue;
    const core::Job& by = *coordinator_->job(departure.preempted_by);
    env_.Expect(by.priority > victim.priority, "a job is preempted by one of no higher priority");
    env_.Expect(victim.spec.scheduling.preemptible, "a job is preempted that is not preemptible");
  }
}

// A preempted job does not leave in vain: the other job can start with the slots that are free or
// will be.
void SimulatedDriver::CheckRoom(const std::vector<core::Departure>& departures) {
  for (const core::Departure& departure : departures) {
    if (!departure.preempted_by.valid()) continue;
    const core::JobSpec& need = coordinator_->job(departure.preempted_by)->spec;
    int slots = 0, nodes = 0;
    for (const core::Worker* worker : coordinator_->workers()) {
      if (!worker->open()) continue;
      const int room = RoomOn(*worker);
      slots += room;
      nodes += need.nodes > 0 && room >= need.ranks_per_node();
    }
    env_.Expect(need.nodes > 0 ? nodes >= need.nodes : slots >= need.ranks,
                "a job is preempted for one that cannot start then");
  }
}

int SimulatedDriver::RoomOn(const core::Worker& worker) const {
  int room = 0;
  for (const std::optional<core::RankKey>& holder : worker.slots) {
    const core::Job* job = holder.has_value() ? coordinator_->job(holder->job) : nullptr;
    room += job == nullptr || job->handover.has_value() || job->failure.has_value();
  }
  return room;
}

void SimulatedDriver::ApplyVerdict(core::Action verdict) {
  if (const auto* late = std::get_if<core::GiveUpRank>(&verdict)) {
    env_.Tell(absl::StrCat("rank ", late->rank.rank, " of job ", late->rank.job.ToString(),
                           " given up: ", late->reason));
  }
  const absl::Status status = Apply(std::move(verdict)).status;
  env_.Expect(status.ok(), absl::StrCat("a verdict was refused on the state it was decided on: ",
                                        status.ToString()));
}

void SimulatedDriver::Sync(std::vector<Item> items) {
  if (unsynced_.empty() || env_.plant == Plant::kReplyBeforeSync) Answer(items);
  if (unsynced_.empty()) return;
  busy_ = true;
  const absl::Duration takes = env_.dice.Between(
      absl::Microseconds(100), absl::Milliseconds(env_.dice.Chance(0.1) ? 500 : 10));
  if (std::exchange(crash_in_next_sync_, false)) Later(takes / 2, [this] { Crash(); });
  auto answered_later = std::make_shared<std::vector<Item>>(std::move(items));
  Later(takes, [this, answered_later] {
    busy_ = false;
    disk_.insert(disk_.end(), unsynced_.begin(), unsynced_.end());
    unsynced_.clear();
    if (env_.plant != Plant::kReplyBeforeSync) Answer(*answered_later);
    Serve();
  });
}

// Replies, then wakes: everything that leaves the process is durable by now.
void SimulatedDriver::Answer(std::vector<Item>& items) {
  heartbeats_->Publish(*coordinator_, *liveness_);
  if (!items.empty() || !changed_.empty()) Acknowledge();
  for (Item& item : items) {
    if (auto* command = std::get_if<CommandItem>(&item)) command->done(command->outcome);
    if (auto* hear = std::get_if<HearItem>(&item)) hear->done(std::nullopt);
    if (auto* wait = std::get_if<WaitItem>(&item)) Park(std::move(*wait));
  }
  if (env_.plant == Plant::kLoseWakes) {
    std::erase_if(changed_, [](const core::Topic& topic) {
      return topic.kind == core::Topic::Kind::kWorldState;
    });
  }
  waiters_->WakeChanged(std::exchange(changed_, {}));
  waiters_->Expire(env_.events.now());
  for (const auto& [ticket, ready] : parked_) {
    env_.Expect(!ready(), "a waiter slept through a change");
  }
}

void SimulatedDriver::Park(WaitItem wait) {
  const server::Waiters::Ticket ticket = ++last_ticket_;
  parked_.emplace(ticket, wait.ready);
  waiters_->Park({ticket, std::move(wait.topics), env_.events.now() + wait.timeout,
                  [this, ticket, ready = std::move(wait.ready), answer = std::move(wait.answer)](
                      server::Waiters::Wake wake, server::Waiters::Changed) {
                    if (wake == server::Waiters::Wake::kChanged && !ready()) return false;
                    parked_.erase(ticket);
                    answer();
                    return true;
                  }});
}

void SimulatedDriver::Acknowledge() {
  env_.Expect(coordinator_->revision() >= acknowledged_, "the revision that clients see went back");
  if (coordinator_->revision() == acknowledged_) return;
  acknowledged_ = coordinator_->revision();
  acknowledged_digest_ = coordinator_->StateDigest();
}

void SimulatedDriver::CheckState() {
  for (const std::string& broken : invariants_.Broken(coordinator_->state())) {
    env_.Expect(false, broken);
  }
  CheckLimits();
  CheckGangs();
  on_change_();
}

void SimulatedDriver::CheckGangs() {
  for (const core::Job* job : coordinator_->jobs()) {
    if (job->spec.nodes == 0) continue;
    std::map<WorkerId, int> ranks_on;
    for (const core::Rank& rank : job->ranks) ++ranks_on[rank.worker_id];
    for (const auto& [worker, ranks] : ranks_on) {
      env_.Expect(ranks == job->spec.ranks_per_node(), "a job's ranks are shared unevenly");
    }
  }
}

void SimulatedDriver::CheckLimits() {
  std::map<std::string, core::Use> users, queues;
  for (const core::Job* job : coordinator_->jobs()) {
    for (const core::Rank& rank : job->ranks) {
      if (!rank.live()) continue;
      users[job->user].slots += 1;
      queues[job->spec.scheduling.queue].jobs.insert(job->id);
    }
  }
  for (const auto& [name, use] : users) {
    env_.Expect(use.slots <= policy_.limits.OfUser(name).slots, "a user holds more than it may");
  }
  for (const auto& [name, use] : queues) {
    env_.Expect(static_cast<int>(use.jobs.size()) <= policy_.limits.OfQueue(name).jobs,
                "a queue runs more jobs than it may");
  }
}

void SimulatedDriver::Later(absl::Duration delay, std::function<void()> event) {
  env_.events.After(delay, [this, life = life_, event = std::move(event)] {
    if (life == life_) event();
  });
}

}  // namespace dp::sim
