#include "worker/core/supervisor.h"

#include <algorithm>
#include <optional>

namespace dp::worker {
namespace {

using Phase = Process::Phase;

bool MayRun(Phase phase) { return phase == Phase::kStarting || phase == Phase::kRunning; }

// The possible goals for a rank, most urgent first.
enum class Goal { kKill, kIsolate, kStop, kRun };

// Whether the process belongs to another job than the assigned one, with the same number.
bool OfAnotherJob(const Process& process, const AssignedRank& assigned) {
  constexpr absl::Time kUnknown = absl::UnixEpoch();
  return process.job_submitted_at != assigned.job_submitted_at &&
         process.job_submitted_at != kUnknown && assigned.job_submitted_at != kUnknown;
}

Goal GoalFor(const Desired& desired, const Observed& observed, const RankKey& key, absl::Time now) {
  const auto assigned = desired.ranks.find(key);
  if (desired.mode == Mode::kAbandon || assigned == desired.ranks.end()) return Goal::kKill;
  const Process* process = observed.Find(key);
  if (process != nullptr && OfAnotherJob(*process, assigned->second)) return Goal::kKill;
  if (assigned->second.stop_when_isolated && now >= observed.lease_held_until()) {
    return Goal::kIsolate;
  }
  return desired.mode == Mode::kStop || assigned->second.stop ? Goal::kStop : Goal::kRun;
}

void DecideAbsent(const AssignedRank& rank, Goal goal, const SlotFitness& slot, Mode mode,
                  Decision* decision) {
  if (goal == Goal::kRun && slot.state == SlotFitness::State::kFit) {
    decision->actions.push_back(Start{rank});
  }
  // The coordinator gave out the slot before it heard that the slot is unfit.
  if (goal == Goal::kRun && slot.state == SlotFitness::State::kUnfit) {
    decision->actions.push_back(Decline{rank, slot.reason});
  }
  if (goal == Goal::kStop) {
    const char* reason =
        mode == Mode::kStop ? "the worker is shutting down" : "stopped before it was started";
    decision->actions.push_back(Decline{rank, reason});
  }
}

// Ends a tree that may still run: SIGTERM, then SIGKILL once the grace has passed.
void DecideStop(const RankKey& key, const Process& process, absl::Time now, Decision* decision) {
  if (!process.terminated_at.has_value()) {
    decision->actions.push_back(Terminate{key});
    decision->ask_again_at = std::min(decision->ask_again_at, now + process.grace);
    return;
  }
  const absl::Time kill_at = *process.terminated_at + process.grace;
  if (now >= kill_at) {
    decision->actions.push_back(Kill{key});
  } else {
    decision->ask_again_at = std::min(decision->ask_again_at, kill_at);
  }
}

void DecidePresent(const RankKey& key, const Process& process, Goal goal, absl::Time now,
                   Decision* decision) {
  if (process.phase == Phase::kGone && goal == Goal::kKill) {
    decision->actions.push_back(Forget{key});
  }
  if (!MayRun(process.phase) || process.killed) return;
  if (goal == Goal::kKill) decision->actions.push_back(Kill{key});
  // Without grace, since the rank must end before the lease does.
  if (goal == Goal::kIsolate) decision->actions.push_back(Kill{key, /*isolated=*/true});
  if (goal == Goal::kStop) DecideStop(key, process, now, decision);
}

// When the slot of a rank that is gone is freed without its logs. At once if the coordinator has no
// room for logs: it may have none for hours.
absl::Time LogsGivenUpAt(const Process& process, absl::Time reachable_since) {
  if (process.logs_refused) return process.gone_at;
  return std::max({process.gone_at, process.logs_moved_at, reachable_since}) + kLogsPatience;
}

// The furthest state that may be reported now. `settled`: the slot can be given back.
Milestone Reached(const Process& process, bool settled, std::optional<absl::Time> reachable_since,
                  absl::Time now) {
  switch (process.phase) {
    case Phase::kStarting:
      return Milestone::kNone;
    case Phase::kRunning:
      return Milestone::kStarted;
    case Phase::kExited:
      return Milestone::kExited;
    case Phase::kGone: {
      const bool given_up = reachable_since && now >= LogsGivenUpAt(process, *reachable_since);
      return settled && (process.logs_shipped || given_up) ? Milestone::kReleased
                                                           : Milestone::kExited;
    }
  }
  return Milestone::kNone;
}

// An exit is reported before the release, since it carries how the rank ended. A start that was not
// reported in time is not reported at all.
Milestone NextToTell(const Process& process, Milestone reached) {
  if (reached <= process.acknowledged) return Milestone::kNone;
  return process.acknowledged < Milestone::kExited ? std::min(reached, Milestone::kExited)
                                                   : reached;
}

struct DueReport {
  uint64_t fact;
  Report report;
};

std::vector<DueReport> DueReports(const Desired& desired, const Observed& observed, absl::Time now,
                                  Decision* decision) {
  std::vector<DueReport> due;
  for (const auto& [key, process] : observed.processes()) {
    if (GoalFor(desired, observed, key, now) == Goal::kKill) continue;
    // A daemon that shuts down gives back no slot that anybody could use.
    const bool settled = desired.mode == Mode::kStop || observed.fitness(process.slot).settled();
    const Milestone reached = Reached(process, settled, observed.reachable_since(), now);
    const Milestone next = NextToTell(process, reached);
    if (next != Milestone::kNone) due.push_back({process.fact, Report{key, next}});
    if (process.phase == Phase::kGone && settled && reached < Milestone::kReleased &&
        observed.reachable_since()) {
      decision->ask_again_at =
          std::min(decision->ask_again_at, LogsGivenUpAt(process, *observed.reachable_since()));
    }
  }
  std::sort(due.begin(), due.end(),
            [](const DueReport& a, const DueReport& b) { return a.fact < b.fact; });
  return due;
}

bool Finished(const Desired& desired, const Observed& observed, absl::Time now) {
  if (desired.mode == Mode::kServe || desired.announcing) return false;
  for (const auto& [key, process] : observed.processes()) {
    if (process.phase != Phase::kGone) return false;
    const bool told = process.acknowledged == Milestone::kReleased ||
                      GoalFor(desired, observed, key, now) == Goal::kKill;
    if (!told && observed.reachable_since()) return false;
  }
  return true;
}

}  // namespace

Decision Reconcile(const Desired& desired, const Observed& observed, absl::Time now) {
  Decision decision;
  for (const auto& [key, rank] : desired.ranks) {
    if (rank.stop_when_isolated && now < observed.lease_held_until()) {
      decision.ask_again_at = std::min(decision.ask_again_at, observed.lease_held_until());
    }
    if (observed.Find(key) == nullptr) {
      DecideAbsent(rank, GoalFor(desired, observed, key, now), observed.fitness(rank.slot),
                   desired.mode, &decision);
    }
  }
  // A stopping daemon has not finished before it has reported its newly declined ranks.
  decision.finished = decision.actions.empty() && Finished(desired, observed, now);
  for (const auto& [key, process] : observed.processes()) {
    DecidePresent(key, process, GoalFor(desired, observed, key, now), now, &decision);
  }
  if (desired.announcing) return decision;
  for (const DueReport& due : DueReports(desired, observed, now, &decision)) {
    decision.actions.push_back(due.report);
  }
  return decision;
}

}  // namespace dp::worker
