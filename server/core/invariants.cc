#include "server/core/invariants.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace dp::core {
namespace {

// Collects sentences about one thing, each prefixed with the thing's name.
class Findings {
 public:
  Findings(std::string thing, std::vector<std::string>& broken)
      : thing_(std::move(thing)), broken_(broken) {}

  void Expect(bool holds, absl::string_view rule) const {
    if (!holds) broken_.push_back(absl::StrCat(thing_, ": ", rule));
  }

 private:
  const std::string thing_;
  std::vector<std::string>& broken_;
};

Findings About(const Job& job, std::vector<std::string>& broken) {
  return {absl::StrCat("job ", job.id.ToString(), " (", Name(job.state), ")"), broken};
}

void CheckWorld(const Job& job, const Findings& findings) {
  const Rendezvous& world = job.world;
  const bool placed = job.generation.valid();
  const size_t min = placed ? job.spec.ranks : 0, max = placed ? job.spec.ranks_max() : 0;
  findings.Expect(job.ranks.size() >= min && job.ranks.size() <= max,
                  "has another number of ranks than its spec");
  if (placed) findings.Expect(world.size() == job.world_size(), "its world has another size");
  for (const int member : world.members()) {
    findings.Expect(member >= 0 && member < world.size(), "a member is outside its world");
  }
  if (world.state() == WorldState::kSealed) {
    findings.Expect(world.missing().empty(), "its world is sealed without all ranks");
  }
}

// Only jobs that allow preemption are preempted.
void CheckPreempted(const Job& job, const Findings& findings) {
  const bool preempted = (job.handover.has_value() && job.handover->preempted_by.valid()) ||
                         (job.failure.has_value() && job.failure->preempted_by.valid());
  findings.Expect(!preempted || job.spec.scheduling.preemptible,
                  "leaves its slots to another, and is not preemptible");
}

// The latest `limit` + 1 restarts that a budget paid for do not all lie within one window.
void CheckBudget(const std::deque<absl::Time>& paid, int limit, absl::Duration window,
                 const Findings& findings) {
  if (paid.size() <= static_cast<size_t>(limit)) return;
  const absl::Time first = paid[paid.size() - limit - 1];
  findings.Expect(paid.back() - first >= window, "a budget of restarts is exceeded");
}

void CheckBudgets(const Job& job, const Findings& findings) {
  for (const auto& [payer, paid] : job.restarts) {
    const RestartLimits limits = job.spec.restart.value_or(RestartLimits{});
    const bool own = payer == FailureClass::kUser;
    const int limit = own                             ? limits.user
                      : payer == FailureClass::kHang  ? limits.hang
                      : payer == FailureClass::kInfra ? limits.infra
                      : payer == FailureClass::kOom   ? limits.oom.value_or(0)
                                                      : 0;
    CheckBudget(paid, limit, own ? absl::InfiniteDuration() : limits.window, findings);
  }
}

void CheckEnd(const Job& job, const Findings& findings) {
  findings.Expect(!job.live(), "is over, but a rank holds a slot");
  findings.Expect(job.finished_at.has_value(), "is over without a time");
  if (job.state == JobState::kSucceeded) {
    findings.Expect(!job.failure.has_value(), "succeeded with a failure");
    for (const Rank& rank : job.ranks) {
      findings.Expect(rank.succeeded(), "succeeded, but a rank did not exit with 0");
    }
  } else if (job.failure.has_value()) {
    findings.Expect((job.failure->failure_class == FailureClass::kCancel) ==
                        (job.state == JobState::kCancelled),
                    "its end is not what its failure says");
  }
}

// The rules about a job's turn: dependencies, holds and deadlines.
void CheckTurn(const Job& job, const Findings& findings) {
  const bool waits = std::any_of(job.after.begin(), job.after.end(), [](const AwaitedJob& awaited) {
    return awaited.state != AwaitedJob::State::kDone;
  });
  findings.Expect(!waits || !job.live(), "runs before a job that it waits for is over");
  findings.Expect(!job.held || job.state == JobState::kPending || job.terminal(),
                  "is held, but not pending");
  const bool bounded = job.spec.scheduling.max_duration < absl::InfiniteDuration();
  findings.Expect(
      job.deadline.has_value() == (bounded && job.live()),
      "holds slots without a deadline though it has a maxDuration, or the other way round");
}

void CheckState(const Job& job, const Findings& findings) {
  const WorldState world = job.world.state();
  switch (job.state) {
    case JobState::kPending:
      findings.Expect(!job.live(), "waits for slots and holds some");
      findings.Expect(!job.failure.has_value(), "waits for slots with a failure");
      break;
    case JobState::kStarting:
      findings.Expect(world == WorldState::kForming, "its world is not forming");
      findings.Expect(job.live(), "has no rank left");
      break;
    case JobState::kRunning:
      findings.Expect(world == WorldState::kSealed, "its world is not sealed");
      findings.Expect(job.live(), "has no rank left");
      break;
    case JobState::kStopping:
      findings.Expect(job.live() || job.may_retry(), "has no rank left to stop");
      [[fallthrough]];
    case JobState::kFailed:
    case JobState::kCancelled:
      findings.Expect(job.failure.has_value(), "has no failure on record");
      [[fallthrough]];
    case JobState::kSucceeded:
      findings.Expect(world == WorldState::kClosed, "its world is open");
      break;
  }
  if (job.terminal()) CheckEnd(job, findings);
}

// Checkpoints are in order, and no generation that is yet to come has made one.
void CheckCheckpoints(const Job& job, const Findings& findings) {
  const std::vector<Checkpoint>& all = job.checkpoints.all();
  for (size_t i = 0; i < all.size(); ++i) {
    findings.Expect(all[i].generation.valid() && all[i].generation <= job.generation,
                    "has a checkpoint of a generation that is to come");
    if (i == 0) continue;
    findings.Expect(all[i - 1].step < all[i].step && all[i - 1].generation <= all[i].generation,
                    "its checkpoints are out of order");
  }
}

// Each taken slot is held by a live rank that names it.
void CheckSlots(const Worker& worker, const State& state, std::vector<std::string>& broken) {
  const Findings findings(absl::StrCat("worker ", worker.name), broken);
  for (size_t slot = 0; slot < worker.slots.size(); ++slot) {
    if (!worker.slots[slot].has_value()) continue;
    const RankKey& holder = *worker.slots[slot];
    const Job* job = state.jobs.Find(holder.job);
    findings.Expect(worker.ready(), "is lost, but a rank holds a slot");
    findings.Expect(job != nullptr && holder.generation == job->generation,
                    "a slot is held by a job or generation that is no more");
    if (job == nullptr || static_cast<size_t>(holder.rank) >= job->ranks.size()) continue;
    const Rank& rank = job->ranks[holder.rank];
    findings.Expect(rank.live(), "a slot is held by a rank that is over");
    findings.Expect(rank.worker_id == worker.id && static_cast<size_t>(rank.slot) == slot,
                    "a slot is held by a rank that has another");
  }
}

// Every live rank holds the slot that it names.
void CheckPlaces(const Job& job, const State& state, const Findings& findings) {
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const Rank& rank = job.ranks[r];
    if (!rank.live()) continue;
    const Worker* worker = state.workers.Find(rank.worker_id);
    const bool exists = worker != nullptr && static_cast<size_t>(rank.slot) < worker->slots.size();
    findings.Expect(
        exists && worker->slots[rank.slot] == RankKey{job.id, job.generation, static_cast<int>(r)},
        "a live rank does not hold its slot");
  }
}

// The indexes agree with a full scan.
void CheckIndexes(const JobRegistry& jobs, std::vector<std::string>& broken) {
  const auto is_unfinished = [](const Job* job) { return !job->terminal(); };
  std::vector<const Job*> unfinished = jobs.jobs();
  std::erase_if(unfinished, std::not_fn(is_unfinished));
  const Findings findings("jobs", broken);
  findings.Expect(jobs.unfinished() == unfinished, "other jobs are unfinished than said");
  std::map<std::string, size_t> of_users;
  for (const Job* job : jobs.jobs()) of_users[job->user] += job->terminal() ? 0 : 1;
  for (const auto& [user, count] : of_users) {
    findings.Expect(jobs.unfinished_of(user) == count,
                    "a user has other unfinished jobs than said");
  }
  findings.Expect(jobs.expiries().size() == jobs.finished().size(),
                  "a finished job has no expiry, or another has one");
}

void CheckStores(const State& state, std::vector<std::string>& broken) {
  for (const Job* job : state.jobs.jobs()) {
    const bool open = job->generation.valid() && job->world.state() != WorldState::kClosed;
    About(*job, broken)
        .Expect(open == (state.stores.count(job->id) > 0),
                "has a store though its world is not open, or the other way round");
  }
  for (const auto& [job, store] : state.stores) {
    Findings(absl::StrCat("store of job ", job.ToString()), broken)
        .Expect(state.jobs.Find(job) != nullptr, "belongs to no job");
  }
}

// No two live generations share a port, and each holds the port that it names.
void CheckStorePorts(const State& state, std::vector<std::string>& broken) {
  const auto& uses = state.store_ports.uses();
  for (const Job* job : state.jobs.jobs()) {
    const Findings findings = About(*job, broken);
    findings.Expect((job->store_port != 0) == (job->spec.store_port && job->live()),
                    "has a store port though it runs nowhere, or the other way round");
    if (job->store_port == 0) continue;
    const auto use = uses.find(job->store_port);
    findings.Expect(use != uses.end() && use->second.holder == job->id,
                    "names a store port that it does not hold");
  }
  for (const auto& [port, use] : uses) {
    if (!use.holder.valid()) continue;
    const Job* job = state.jobs.Find(use.holder);
    Findings(absl::StrCat("store port ", port), broken)
        .Expect(job != nullptr && job->store_port == port, "is held by a job that has another");
  }
}

void CheckLives(const State& state, std::vector<std::string>& broken) {
  std::set<Incarnation> lives;
  for (const Worker* worker : state.workers.workers()) {
    if (!worker->ready()) continue;
    const bool once = lives.insert(worker->incarnation).second;
    Findings(absl::StrCat("worker ", worker->name), broken)
        .Expect(once, "shares its incarnation with another");
  }
}

void CheckVersions(const State& state, std::vector<std::string>& broken) {
  const Findings findings("versions", broken);
  for (const auto& [topic, version] : state.versions) {
    findings.Expect(version <= state.revision, "a topic is ahead of the revision");
  }
  for (const Job* job : state.jobs.jobs()) {
    findings.Expect(job->version.valid() && job->version <= state.revision,
                    "a job is ahead of the revision, or has no version");
  }
}

}  // namespace

std::vector<std::string> Invariants::Broken(const State& state) {
  std::vector<std::string> broken;
  for (const Job* job : state.jobs.jobs()) {
    const Findings findings = About(*job, broken);
    CheckWorld(*job, findings);
    CheckPreempted(*job, findings);
    CheckState(*job, findings);
    CheckPlaces(*job, state, findings);
    CheckCheckpoints(*job, findings);
    CheckBudgets(*job, findings);
    CheckTurn(*job, findings);
  }
  for (const Worker* worker : state.workers.workers()) CheckSlots(*worker, state, broken);
  CheckIndexes(state.jobs, broken);
  CheckStores(state, broken);
  CheckStorePorts(state, broken);
  CheckLives(state, broken);
  CheckVersions(state, broken);
  CheckProgress(state, broken);
  return broken;
}

void Invariants::CheckProgress(const State& state, std::vector<std::string>& broken) {
  const Findings findings("coordinator", broken);
  findings.Expect(state.epoch >= epoch_, "the epoch went back");
  findings.Expect(state.revision >= revision_, "the revision went back");
  epoch_ = state.epoch;
  revision_ = state.revision;
  std::map<JobId, Seen> now;
  for (const Job* job : state.jobs.jobs()) {
    if (const auto it = jobs_.find(job->id); it != jobs_.end()) {
      CheckProgressOf(*job, it->second, broken);
    }
    Seen& seen = now[job->id];
    seen = {job->generation, job->version, job->terminal(), job->restart_count, {}};
    for (const Rank& rank : job->ranks) seen.ranks.push_back(rank.state);
  }
  jobs_ = std::move(now);
}

void Invariants::CheckProgressOf(const Job& job, const Seen& before,
                                 std::vector<std::string>& broken) {
  const Findings findings = About(job, broken);
  findings.Expect(job.generation >= before.generation, "its generation went back");
  findings.Expect(job.restart_count >= before.restarts, "its count of restarts went back");
  findings.Expect(job.version >= before.version, "its version went back");
  if (before.terminal) {
    findings.Expect(job.terminal() && job.version == before.version, "moved after its end");
  }
  if (job.generation != before.generation) return;
  for (size_t r = 0; r < job.ranks.size() && r < before.ranks.size(); ++r) {
    findings.Expect(job.ranks[r].state >= before.ranks[r], "the state of a rank went back");
  }
}

}  // namespace dp::core
