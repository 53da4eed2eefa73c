#include "tests/sim/daemon.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "base/timeouts.h"

namespace dp::sim {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(3);
// A guard notices the end of its daemon at once; the rest is for a busy host.
constexpr absl::Duration kGuardTakes = absl::Milliseconds(200);

}  // namespace

Daemon::Daemon(Environment& environment, Network& network, ProcessTable& table, Node node,
               std::string name, int slots, std::shared_ptr<StateDir> state_dir)
    : env_(environment),
      network_(network),
      table_(table),
      node_(node),
      name_(std::move(name)),
      slots_(slots),
      state_dir_(std::move(state_dir)) {}

bool StateDir::AllGone() const {
  return std::none_of(left.begin(), left.end(), [](const auto& each) { return each->alive(); });
}

void Daemon::Crash() {
  env_.Tell(absl::StrCat("daemon on node ", node_, " killed"));
  alive_ = false;
  for (const auto& [key, process] : processes_) {
    state_dir_->left.push_back(process);
    env_.events.After(env_.dice.Between(absl::ZeroDuration(), kGuardTakes),
                      [process = process] { process->Vanish(); });
  }
}

void Daemon::Freeze(absl::Duration duration) {
  env_.Tell(absl::StrCat("daemon on node ", node_, " frozen for ", absl::FormatDuration(duration)));
  frozen_until_ = env_.events.now() + duration;
  for (const auto& [key, process] : processes_) process->Neglect();
}

void Daemon::Register() {
  incarnation_ = Incarnation(env_.dice.Seed() | 1);
  earlier_ = state_dir_->incarnations;
  state_dir_->incarnations.push_back(incarnation_);
  serving_ = false;
  version_ = Revision();
  desired_ = {};
  observed_ = {};
  reporting_ = false;
  unhealthy_.clear();
  slot_reports_ = 0;
  asked_again_at_ = absl::InfiniteFuture();
  lease_ = {SimulatedDriver::kLease};
  Retry<WorkerId>(
      env_, kForever,
      [self = shared_from_this()](absl::Duration deadline, Reply<WorkerId> done) {
        if (!self->alive_) return;  // the loop ends with the daemon
        self->registering_since_ = self->env_.events.now();
        self->Call<WorkerId>(
            deadline,
            [request = self->Registration()](Service& service, auto reply) {
              service.Register(request, reply);
            },
            std::move(done));
      },
      [self = shared_from_this()](const absl::StatusOr<WorkerId>& id) {
        id.ok() ? self->Serve(*id) : self->NotRegistered(id.status());
      });
}

core::RegisterWorker Daemon::Registration() const {
  core::RegisterWorker request{name_, absl::StrCat("host", node_), "", incarnation_, slots_};
  const bool proven = state_dir_->AllGone() || env_.plant == Plant::kReplaceTooSoon;
  if (proven && env_.plant != Plant::kEndOnTakenName) request.replaces = earlier_;
  return request;
}

void Daemon::NotRegistered(const absl::Status& status) {
  Later(absl::Seconds(1), [this] { Register(); });
  if (env_.plant != Plant::kEndOnTakenName || !absl::IsAlreadyExists(status)) return;
  Call<absl::Duration>(
      absl::Milliseconds(500),
      [name = name_](Service& service, auto reply) { service.SilenceOf(name, reply); },
      [this](const absl::StatusOr<absl::Duration>& silent_for) {
        if (!silent_for.ok()) return;
        const absl::Duration before = std::exchange(holder_silent_for_, *silent_for);
        if (*silent_for < before) ++holder_beats_;
        if (holder_beats_ == 2) alive_ = false;
      });
}

void Daemon::Serve(WorkerId id) {
  id_ = id;
  holder_silent_for_ = absl::ZeroDuration();
  holder_beats_ = 0;
  serving_ = true;
  env_.Tell(absl::StrCat("node ", node_, " registered as worker ", id.ToString()));
  observed_.Reachable(env_.events.now());
  HoldLease(registering_since_);
  Heartbeat();
  Watch();
}

void Daemon::Heartbeat() {
  using Lease = core::Liveness::Lease;
  const absl::Time sent = env_.events.now();
  Call<Lease>(
      lease_.term / 4,
      [id = id_, incarnation = incarnation_, number = lease_.number](Service& service, auto reply) {
        service.Heartbeat(id, incarnation, number, reply);
      },
      [this, sent](const absl::StatusOr<Lease>& beat) {
        Lapse(beat.status());
        if (beat.ok() && beat->number > lease_.number) lease_ = *beat;
        // If no coordinator runs, none gives up the lease, and the next one waits a full term. A
        // lease that has run out may have been given up before.
        const bool held = env_.events.now() < observed_.lease_held_until();
        if (beat.ok() || (absl::IsUnavailable(beat.status()) && held)) HoldLease(sent);
        Reconcile();
        if (serving_) Later(lease_.term / 4, [this] { Heartbeat(); });
      });
}

void Daemon::HoldLease(absl::Time sent) {
  observed_.LeaseHeldUntil(sent + IsolationWithin(lease_.term));
}

void Daemon::Watch() {
  Call<core::Assignment>(
      absl::Seconds(12),
      [id = id_, incarnation = incarnation_, since = version_](Service& service, auto reply) {
        service.WatchAssignment(id, incarnation, since, absl::Seconds(10), reply);
      },
      [this](const absl::StatusOr<core::Assignment>& assignment) {
        Lapse(assignment.status());
        if (!serving_) return;
        if (assignment.ok()) Take(*assignment);
        Later(assignment.ok() ? absl::ZeroDuration() : absl::Milliseconds(500),
              [this] { Watch(); });
      });
}

// Records what an answer shows of the coordinator and of this incarnation.
void Daemon::Lapse(const absl::Status& status) {
  if (!serving_) return;
  if (absl::IsFailedPrecondition(status) || absl::IsNotFound(status)) return Abandon();
  status.ok() ? observed_.Reachable(env_.events.now()) : observed_.Unreachable();
}

void Daemon::Take(const core::Assignment& assignment) {
  // One watch at a time, and versions grow: a late answer never brings back ranks that are over.
  env_.Expect(assignment.version >= version_, "the version of an assignment went back");
  version_ = assignment.version;
  desired_.ranks.clear();
  for (const core::AssignedRank& rank : assignment.ranks) {
    desired_.ranks[rank.key] = {
        rank.key, rank.stop, kGrace,
        /*stop_when_isolated=*/!rank.hosts.empty() && env_.plant != Plant::kOutliveTouch,
        rank.slot};
    world_sizes_[rank.key] = rank.world_size;
    commands_[rank.key] = !rank.hosts.empty();
  }
  Reconcile();
}

void Daemon::Abandon() {
  env_.Tell(absl::StrCat("node ", node_, " has lost its lease"));
  serving_ = false;
  desired_.mode = worker::Mode::kAbandon;
  Reconcile();
}

void Daemon::Reconcile() {
  worker::Decision decision;
  bool acted = true;
  while (acted) {
    acted = false;
    decision = worker::Reconcile(desired_, observed_, env_.events.now());
    for (const worker::Action& action : decision.actions) acted |= CarryOut(action);
  }
  if (desired_.mode == worker::Mode::kAbandon && decision.finished) {
    Later(absl::Milliseconds(100), [this] { Register(); });
    desired_ = {};
    return;
  }
  if (decision.ask_again_at >= asked_again_at_) return;
  asked_again_at_ = decision.ask_again_at;
  Later(asked_again_at_ - env_.events.now(), [this] {
    asked_again_at_ = absl::InfiniteFuture();
    Reconcile();
  });
}

bool Daemon::CarryOut(const worker::Action& action) {
  const absl::Time now = env_.events.now();
  return std::visit(Overloaded{[&](const worker::Start& start) {
                                 Start(start.rank);
                                 return true;
                               },
                               [&](const worker::Decline& decline) {
                                 observed_.Declined(decline.rank, decline.reason, now);
                                 return true;
                               },
                               [&](const worker::Terminate& terminate) {
                                 observed_.Terminated(terminate.key, now);
                                 processes_.at(terminate.key)->Terminate();
                                 if (env_.plant == Plant::kTakeSignalForEnd) {
                                   Exited(terminate.key, {core::Exit::How::kSignal, 15});
                                 }
                                 return true;
                               },
                               [&](const worker::Kill& kill) {
                                 observed_.Killed(kill.key, kill.isolated);
                                 processes_.at(kill.key)->Kill();
                                 return true;
                               },
                               [&](const worker::Forget& forget) {
                                 observed_.Forgotten(forget.key);
                                 processes_.erase(forget.key);
                                 return true;
                               },
                               [&](const worker::Report& report) {
                                 Report(report);
                                 return false;
                               }},
                    action);
}

void Daemon::Start(const worker::AssignedRank& rank) {
  observed_.AskedToStart(rank);
  if (env_.dice.Chance(0.01)) {
    observed_.StartFailed(rank.key, "no such program", env_.events.now());
    return;
  }
  auto process =
      std::make_shared<Process>(env_, network_, table_, Process::Parent{node_, id_, incarnation_},
                                rank.key, world_sizes_.at(rank.key), commands_.at(rank.key));
  processes_[rank.key] = process;
  env_.Tell(absl::StrCat("node ", node_, " starts rank ", rank.key.job.ToString(), ".",
                         rank.key.generation.ToString(), "/", rank.key.rank));
  process->Begin([this, key = rank.key](const core::Exit& exit) {
    Later(absl::Milliseconds(1), [this, key, exit] { Exited(key, exit); });
  });
  Later(absl::Milliseconds(1), [this, key = rank.key] {
    observed_.Started(key, 100 + key.rank);
    Reconcile();
  });
}

void Daemon::Exited(const worker::RankKey& key, const core::Exit& exit) {
  observed_.Started(key, 100 + key.rank);  // a process that dies at once may be reaped first
  observed_.Exited(key, exit, {"last line"});
  Reconcile();
  Later(env_.dice.Between(absl::ZeroDuration(), absl::Milliseconds(300)), [this, key] {
    const worker::Process* process = observed_.Find(key);
    if (process != nullptr && env_.dice.Chance(0.05)) Afflict(process->slot);
    observed_.Gone(key, env_.events.now());
    Reconcile();
  });
  Later(env_.dice.Between(absl::Milliseconds(300), absl::Seconds(1)), [this, key] {
    observed_.LogsShipped(key);
    Reconcile();
  });
}

void Daemon::Afflict(int slot) {
  using State = worker::SlotFitness::State;
  if (observed_.fitness(slot).state != State::kFit) return;
  env_.Tell(absl::StrCat("node ", node_, ": the GPU of slot ", slot, " is not let go"));
  SlotIs(slot, State::kReturning);
  Later(absl::Seconds(1), [this, slot] { SlotIs(slot, State::kUnfit); });
  Later(env_.dice.Between(absl::Seconds(2), absl::Seconds(6)),
        [this, slot] { SlotIs(slot, State::kFit); });
}

void Daemon::SlotIs(int slot, worker::SlotFitness::State state) {
  const bool unfit = state == worker::SlotFitness::State::kUnfit;
  const bool known = unhealthy_.contains(slot);
  if (unfit) unhealthy_[slot] = "GPU 0 still holds 9 MiB";
  if (!unfit) unhealthy_.erase(slot);
  observed_.SlotIs(slot, {.state = state, .reason = unfit ? unhealthy_[slot] : ""});
  if (unfit != known) ReportSlots();
  Reconcile();
}

// Retries until the report is acknowledged, or a newer report replaces it.
void Daemon::ReportSlots() {
  const core::ReportSlots request{id_, incarnation_, ++slot_reports_, unhealthy_};
  Call<Done>(
      absl::Seconds(2), [request](Service& service, auto reply) { service.Act(request, reply); },
      [this, request](const absl::StatusOr<Done>& done) {
        if (request.number != slot_reports_) return;
        if (absl::IsUnavailable(done.status()) || absl::IsDeadlineExceeded(done.status())) {
          return Later(absl::Milliseconds(300), [this, request] {
            if (request.number == slot_reports_) ReportSlots();
          });
        }
        for (const auto& [slot, reason] : unhealthy_) {
          observed_.SlotIs(
              slot, {.state = worker::SlotFitness::State::kUnfit, .reason = reason, .told = true});
        }
        Reconcile();
      });
}

void Daemon::Report(const worker::Report& report) {
  if (!serving_ || std::exchange(reporting_, true)) return;
  const worker::Process& process = *observed_.Find(report.key);
  core::ReportRank request{id_, incarnation_, report.key};
  request.what = static_cast<core::ReportRank::What>(static_cast<int>(report.milestone) - 1);
  request.pid = process.pid;
  request.exit = process.exit;
  request.error = process.error;
  request.last_lines = process.last_lines;
  request.stopped = process.stopped();
  Call<Done>(
      absl::Seconds(2),
      [request](Service& service, auto reply) { service.ReportRank(request, reply); },
      [this, report](const absl::StatusOr<Done>& done) { Reported(report, done.status()); });
}

void Daemon::Reported(const worker::Report& report, const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    Later(absl::Milliseconds(300), [this] {
      reporting_ = false;
      Reconcile();
    });
    return;
  }
  // A rejected report is not wanted. The heartbeat shows whether this incarnation still is.
  reporting_ = false;
  observed_.Acknowledged(report.key, report.milestone);
  Reconcile();
}

void Daemon::Later(absl::Duration delay, std::function<void()> event) {
  env_.events.After(delay, [self = shared_from_this(), incarnation = incarnation_,
                            event = std::move(event)]() mutable {
    if (!self->alive_ || self->incarnation_ != incarnation) return;
    const absl::Duration frozen = self->frozen_until_ - self->env_.events.now();
    if (frozen > absl::ZeroDuration()) return self->Later(frozen, std::move(event));
    event();
  });
}

template <typename T>
void Daemon::Call(absl::Duration deadline, std::function<void(Service&, Reply<T>)> serve,
                  Reply<T> done) {
  // The answer is one more event of this incarnation.
  network_.Call<T>(node_, deadline, std::move(serve),
                   [self = shared_from_this(), incarnation = incarnation_,
                    done = std::move(done)](absl::StatusOr<T> answer) {
                     if (!self->alive_ || self->incarnation_ != incarnation) return;
                     self->Later(absl::ZeroDuration(),
                                 [done, answer = std::move(answer)] { done(answer); });
                   });
}

}  // namespace dp::sim
