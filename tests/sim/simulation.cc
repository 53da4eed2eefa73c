#include "tests/sim/simulation.h"

#include "absl/strings/str_cat.h"

namespace dp::sim {
namespace {

constexpr absl::Duration kTrouble = absl::Seconds(60);
// Well above all time limits in the system, one after the other. The longest is Liveness::kHoldMax.
constexpr absl::Duration kPeace = absl::Minutes(15);
// Longer than a rank needs to reach a coordinator that is frozen or away.
constexpr absl::Duration kJoinWithin = absl::Seconds(20);
constexpr int kFaultKinds = 8;
// A daemon that starts again so soon may find guards of its predecessor.
constexpr absl::Duration kAtOnce = absl::Milliseconds(100);
constexpr int kDaemons = 3;
constexpr int kSlots = 2;

}  // namespace

Simulation::Simulation(uint64_t seed, Plant plant, bool verbose)
    : env_(seed, plant, verbose),
      driver_(env_),
      service_(driver_, plant),
      network_(env_, service_),
      processes_(env_),
      user_(env_, network_),
      operator_(env_, network_) {}

Report Simulation::Run() {
  Weather weather;
  weather.drop = env_.dice.Below(10) * 0.01;
  weather.duplicate = env_.dice.Below(10) * 0.01;
  weather.slow = env_.dice.Below(10) * 0.01;
  network_.SetWeather(weather);
  driver_.OnChange([this] { processes_.CheckReleased(driver_.coordinator()); });
  driver_.Start();
  WatchCoordinator();
  for (int i = 0; i < kDaemons; ++i) {
    const Node node = ++last_node_;
    StartDaemon(node, env_.dice.Chance(0.5) ? absl::StrCat("worker-", node) : "",
                std::make_shared<StateDir>());
  }
  SubmitJobs();
  operator_.Start();
  DrawFaultKinds();
  ScheduleFault();
  env_.events.After(kTrouble, [this] { MakePeace(); });
  const absl::Time end = env_.events.now() + kTrouble + kPeace;
  while (env_.broken.empty() && !settled_ && env_.events.RunOne(end)) {
  }
  if (env_.broken.empty()) CheckEnd();
  Report report{env_.broken,
                static_cast<int>(user_.jobs().size()),
                0,
                faults_,
                0,
                driver_.departures(),
                driver_.short_leases_lost()};
  for (const auto& [job, state] : user_.jobs()) {
    report.succeeded += state == core::JobState::kSucceeded;
    // Null if the record has expired.
    const core::Job* record = driver_.up() ? driver_.coordinator().job(job) : nullptr;
    if (record != nullptr) report.restarts += record->restart_count;
  }
  return report;
}

void Simulation::StartDaemon(Node node, const std::string& name,
                             std::shared_ptr<StateDir> state_dir) {
  daemons_.push_back(std::make_shared<Daemon>(env_, network_, processes_, node, name, kSlots,
                                              std::move(state_dir)));
  daemons_.back()->Start();
}

void Simulation::SubmitJobs() {
  for (int i = 0; i < kJobs; ++i) {
    env_.events.After(env_.dice.Between(absl::ZeroDuration(), absl::Seconds(50)), [this] {
      const int ranks = 1 + env_.dice.Below(kDaemons * kSlots + 1);
      const std::string user = env_.dice.Chance(0.3) ? "ann" : "bob";
      // A job that fits nowhere would wait for ever, so its owner cancels it.
      const bool never =
          ranks > (user == "ann" ? SimulatedDriver::kAnnSlotsMax : kDaemons * kSlots);
      const bool cancel = never || env_.dice.Chance(0.15);
      core::JobSpec spec{.name = "job", .ranks = ranks};
      spec.joins_by_running = env_.dice.Chance(0.5);
      if (!spec.joins_by_running) spec.join_within = kJoinWithin;
      // Some jobs ask for less than the lease.
      if (env_.dice.Chance(0.4)) {
        spec.detect_within = env_.dice.Between(absl::Seconds(1), absl::Seconds(6));
      }
      const bool shareable = ranks % 2 == 0 && ranks <= 2 * kSlots;
      if (shareable && env_.dice.Chance(0.5)) spec.nodes = 2;
      if (env_.dice.Chance(0.7)) {
        spec.restart = core::RestartLimits{
            .user = env_.dice.Below(3), .infra = env_.dice.Below(4), .hang = env_.dice.Below(2)};
      }
      const bool elastic = spec.nodes > 0 && env_.dice.Chance(0.5);
      if (elastic) spec.nodes_max = kDaemons;
      spec.saves = !spec.joins_by_running && env_.dice.Chance(0.5);
      spec.grace = env_.dice.Between(absl::ZeroDuration(), absl::Seconds(10));
      spec.scheduling = DrawScheduling();
      if (elastic && env_.dice.Chance(0.7)) {
        spec.scheduling.grow_after = env_.dice.Between(absl::Milliseconds(100), absl::Seconds(5));
      }
      user_.Submit(spec, user,
                   cancel ? env_.dice.Between(absl::ZeroDuration(), absl::Seconds(20))
                          : absl::InfiniteDuration());
    });
  }
}

core::Scheduling Simulation::DrawScheduling() {
  core::Scheduling scheduling;
  scheduling.priority = env_.dice.Below(5) - 2;
  scheduling.hold = env_.dice.Chance(0.1);
  scheduling.singleton = env_.dice.Chance(0.2);
  scheduling.preemptible = env_.dice.Chance(0.5);
  if (env_.dice.Chance(0.3)) {
    scheduling.max_duration = env_.dice.Between(absl::Seconds(2), absl::Seconds(40));
  }
  if (env_.dice.Chance(0.2)) scheduling.ttl_after_finish = absl::Seconds(env_.dice.Below(30));
  if (!user_.jobs().empty() && env_.dice.Chance(0.2)) {
    // A job that may be forgotten already cannot be waited for.
    const JobId last = user_.jobs().rbegin()->first;
    if (user_.Lasting(last)) scheduling.after = {{last, env_.dice.Chance(0.5)}};
  }
  return scheduling;
}

void Simulation::ScheduleFault() {
  env_.events.After(env_.dice.Between(absl::Milliseconds(100), absl::Seconds(12)), [this] {
    if (at_peace_) return;
    ++faults_;
    Fault();
    ScheduleFault();
  });
}

// Half of the runs have only some kinds of faults. Several faults of one kind in a row are rare
// among all kinds.
void Simulation::DrawFaultKinds() {
  const bool all = env_.dice.Chance(0.5);
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    if (all || env_.dice.Chance(0.4)) fault_kinds_.push_back(kind);
  }
  if (fault_kinds_.empty()) fault_kinds_.push_back(env_.dice.Below(kFaultKinds));
}

Daemon& Simulation::AnyDaemon() {
  std::vector<Daemon*> alive;
  for (const auto& daemon : daemons_) {
    if (daemon->alive()) alive.push_back(daemon.get());
  }
  if (alive.empty()) return *daemons_.back();
  return *alive[env_.dice.Below(static_cast<int>(alive.size()))];
}

void Simulation::Fault() {
  Daemon& daemon = AnyDaemon();
  switch (fault_kinds_[env_.dice.Below(static_cast<int>(fault_kinds_.size()))]) {
    case 0:
    case 1:
      return CrashCoordinator();
    case 2:
      if (driver_.up()) driver_.Freeze(env_.dice.Between(absl::Milliseconds(10), absl::Seconds(8)));
      return;
    case 3:
      return CrashDaemon(daemon);
    case 4:
      return daemon.Freeze(env_.dice.Between(absl::Milliseconds(10), absl::Seconds(8)));
    case 5:
      return CutOff(daemon.node());
    case 6:
      return BreakProcess();
    case 7:
      return ReplaceDaemon(daemon);
  }
}

void Simulation::CrashCoordinator() {
  if (!driver_.up()) return;
  env_.dice.Chance(0.5) ? driver_.Crash() : driver_.CrashInNextSync();
}

// Restarts the coordinator, as systemd does.
void Simulation::WatchCoordinator() {
  if (driver_.up())
    return env_.events.After(absl::Milliseconds(50), [this] { WatchCoordinator(); });
  env_.events.After(env_.dice.Between(absl::ZeroDuration(), absl::Seconds(6)), [this] {
    driver_.Start();
    WatchCoordinator();
  });
}

void Simulation::CrashDaemon(Daemon& daemon) {
  if (!daemon.alive()) return;
  daemon.Crash();
  // Some state directories are in memory, or on a disk that is gone.
  const bool kept = env_.dice.Chance(0.7);
  const absl::Duration away_max = env_.dice.Chance(0.5) ? kAtOnce : absl::Seconds(10);
  env_.events.After(env_.dice.Between(absl::Milliseconds(10), away_max),
                    [this, node = daemon.node(), name = daemon.name(),
                     dir = kept ? daemon.state_dir() : std::make_shared<StateDir>()] {
                      StartDaemon(node, name, dir);
                    });
}

void Simulation::CutOff(Node node) {
  env_.Tell(absl::StrCat("node ", node, " cut off"));
  network_.CutOff(node);
  env_.events.After(env_.dice.Between(absl::Milliseconds(100), absl::Seconds(30)),
                    [this, node] { network_.Heal(node); });
}

void Simulation::BreakProcess() {
  const std::vector<Process*> alive = processes_.alive();
  if (alive.empty()) return;
  Process& process = *alive[env_.dice.Below(static_cast<int>(alive.size()))];
  if (env_.dice.Chance(0.6)) return process.Crash({core::Exit::How::kSignal, 9});
  process.Hang();
  // Its peers notice the hang. If there are none, or they do not look, its owner cancels the job.
  if (process.command() || processes_.Alone(process.key())) user_.Cancel(process.key().job);
}

void Simulation::ReplaceDaemon(Daemon& daemon) {
  if (!daemon.alive() || daemon.name().empty()) return;
  CutOff(daemon.node());
  StartDaemon(++last_node_, daemon.name(), std::make_shared<StateDir>());
}

void Simulation::MakePeace() {
  env_.Tell("peace");
  at_peace_ = true;
  operator_.MakePeace();
  network_.SetWeather({});
  network_.HealAll();
  LookWhetherSettled();
}

void Simulation::LookWhetherSettled() {
  settled_ = Unsettled().empty();
  if (!settled_ && driver_.up()) operator_.TidyUp(driver_.coordinator());
  env_.events.After(absl::Seconds(1), [this] { LookWhetherSettled(); });
}

// Everything that has not come to its end.
std::vector<std::string> Simulation::Unsettled() const {
  std::vector<std::string> unsettled;
  const auto expect = [&](bool holds, std::string otherwise) {
    if (!holds) unsettled.push_back(std::move(otherwise));
  };
  expect(driver_.up(), "the coordinator is not up at the end");
  if (!driver_.up()) return unsettled;
  expect(user_.answered(), "a submission was not answered");
  for (const core::Job* job : driver_.coordinator().jobs()) {
    expect(job->terminal(), absl::StrCat("job ", job->id.ToString(), " is still ",
                                         core::Name(job->state), " at the end"));
  }
  for (const auto& [job, state] : user_.jobs()) {
    const core::Job* found = driver_.coordinator().job(job);
    const bool seen = found == nullptr ? !user_.Lasting(job) : state == found->state;
    expect(seen, absl::StrCat("the end of job ", job.ToString(), " was not seen by its owner"));
  }
  expect(processes_.alive().empty(), "a rank process is left at the end");
  size_t slots = 0;
  for (const core::Worker* worker : driver_.coordinator().workers()) {
    slots += worker->free_slots().size();
  }
  expect(slots == kDaemons * kSlots, absl::StrCat(slots, " slots are free at the end"));
  return unsettled;
}

void Simulation::CheckBlame(const core::Job& job, const core::Failure& failure) {
  if (failure.failure_class != core::FailureClass::kHang) return;
  env_.Expect(processes_.HasHung({job.id, failure.generation, *failure.rank}),
              absl::StrCat("job ", job.id.ToString(), " blames a rank that did not hang"));
}

void Simulation::CheckEnd() {
  for (const std::string& what : Unsettled()) env_.Expect(false, what);
  for (const core::Job* job : driver_.coordinator().jobs()) {
    if (job->failure) CheckBlame(*job, *job->failure);
    for (const core::PastFailure& past : job->past) CheckBlame(*job, past.failure);
  }
  for (const core::Job* job : driver_.coordinator().jobs()) {
    if (job->state != core::JobState::kSucceeded || job->spec.joins_by_running) continue;
    env_.Expect(processes_.sums(job->id, job->generation) == job->ranks.size() * Process::kSteps,
                absl::StrCat("job ", job->id.ToString(), " lost or repeated an add"));
  }
}

}  // namespace dp::sim
