#include "server/core/coordinator.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status.h"
#include "server/core/accusations.h"
#include "server/core/digest.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {
namespace {

absl::Status CheckGeneration(const Job& job, Generation generation) {
  if (!job.generation.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id.ToString(), " has not been placed"));
  }
  if (generation == job.generation) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("job ", job.id.ToString(), ": generation ",
                                                    generation.ToString(), " is stale, current is ",
                                                    job.generation.ToString()));
}

RankEnd EndOf(const ReportRank& command, const Job& job, const WorkerTable& workers) {
  RankEnd end{command.exit,    command.error,       command.last_lines,
              command.stopped, command.stop_reason, command.oom};
  if (command.version < 2) return end;
  // dp's own trainers exit with another code when they are stopped.
  end.obeyed = command.stopped && job.spec.joins_by_running;
  // Only for the first failure of a generation, since the loop visits every rank.
  if (command.exit.success() || command.stopped || job.failure.has_value()) return end;
  for (const Rank& rank : job.ranks) {
    const Worker* const other = workers.Find(rank.worker_id);
    const bool leaves = other != nullptr && other->leaving && rank.worker_id != command.worker;
    if (leaves && end.leaving_peer.empty()) end.leaving_peer = other->name;
  }
  return end;
}

}  // namespace

Outcome Coordinator::Apply(const Command& command) {
  now_ = command.at;
  touched_.clear();
  store_changes_.clear();
  recorded_ = false;
  forgotten_.clear();
  Outcome outcome = Finish(
      std::visit([&](const auto& action) { return On(action, command.at); }, command.action));
  if (outcome.journal) state_.at = command.at;
  return outcome;
}

// A rejected command must not have touched anything. A change makes a new revision, which becomes
// the version of every touched topic.
Outcome Coordinator::Finish(absl::StatusOr<Reply> reply) {
  Outcome outcome;
  outcome.status = reply.status();
  outcome.journal = recorded_ || !touched_.empty();
  if (!reply.ok()) {
    // Replay applies journalled commands only. A rejected command that changed something would be
    // missing after a restart, and every later command would meet another state.
    DP_CHECK(!outcome.journal);
    return outcome;
  }
  outcome.reply = *std::move(reply);
  if (!outcome.journal) return outcome;
  state_.revision = NextRevision();
  for (const Topic& topic : touched_) Stamp(topic);
  outcome.changed = std::move(store_changes_);
  outcome.changed.insert(outcome.changed.end(), touched_.begin(), touched_.end());
  outcome.forgotten = std::move(forgotten_);
  return outcome;
}

void Coordinator::Stamp(const Topic& topic) {
  if (topic.kind == Topic::Kind::kJob) {
    if (Job* job = state_.jobs.Find(JobId(topic.id))) job->version = state_.revision;
  } else if (topic.kind != Topic::Kind::kWorldState) {  // which has kWorld's version
    state_.versions[topic] = state_.revision;
  }
}

absl::StatusOr<Reply> Coordinator::On(const StartEpoch& command, absl::Time at) {
  state_.epoch = Epoch(state_.epoch.value() + 1);
  if (command.version > 1) {
    const uint64_t now = std::max<int64_t>(0, absl::ToUnixMicros(at));
    state_.epoch = std::max(state_.epoch, Epoch(now));
    state_.revision = std::max(state_.revision, Revision(now));
  }
  state_.store_limits = command.store_limits;
  state_.kept_answers = command.kept_answers;
  for (auto& [job, store] : state_.stores) store.Limit(command.store_limits, command.kept_answers);
  recorded_ = true;
  return Reply(state_.epoch);
}

absl::StatusOr<Reply> Coordinator::On(const SubmitJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(const JobRegistry::Submitted submitted,
                      state_.jobs.Submit(command, NextRevision(), at));
  if (submitted.made) {
    Touch({Topic::Kind::kJob, submitted.id.value()});
    Touch({Topic::Kind::kJobList});
    Tell(*job(submitted.id), "submitted", command.user.empty() ? "" : "by " + command.user);
  }
  return Reply(submitted.id);
}

absl::StatusOr<Reply> Coordinator::On(const CancelJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  const Sight before = See(*job);
  if (Cancel(*job, at)) Moved(*job, before);
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const RegisterWorker& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(const WorkerTable::Registered registered,
                      state_.workers.Register(command, at));
  if (registered.changed) {
    Touch({Topic::Kind::kAssignment, registered.id.value()});
    Touch({Topic::Kind::kWorkers});
    Tell(*worker(registered.id), "registered");
    ForgetWorkers();
  }
  return Reply(registered.id);
}

absl::StatusOr<Reply> Coordinator::On(const LoseWorker& command, absl::Time at) {
  const Worker* worker = state_.workers.Find(command.worker);
  if (worker == nullptr) {
    return absl::NotFoundError(absl::StrCat("worker ", command.worker.ToString(), " is not known"));
  }
  // The verdict is about an incarnation that is gone already.
  if (!worker->ready() || worker->incarnation != command.incarnation) return Reply();
  Tell(*worker, "lost", command.reason);
  LoseRanks(state_.workers.Lose(command.worker, command.reason, at), command, at);
  Touch({Topic::Kind::kAssignment, command.worker.value()});
  Touch({Topic::Kind::kWorkers});
  ForgetWorkers();
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const LeaveWorker& command, absl::Time) {
  DP_RETURN_IF_ERROR(state_.workers.Check(command.worker, command.incarnation));
  if (state_.workers.Leave(command.worker)) {
    Touch({Topic::Kind::kWorkers});
    Tell(*worker(command.worker), "leaving");
  }
  return Reply();
}

void Coordinator::LoseRanks(const std::vector<RankKey>& ranks, const LoseWorker& command,
                            absl::Time at) {
  for (const RankKey& rank : ranks) {
    Job* job = state_.jobs.Find(rank.job);
    DP_CHECK(job != nullptr);
    const Sight before = See(*job);
    const bool takes_blame = command.version >= 2;
    if (RankLost(*job, rank.rank, command.reason, takes_blame, at)) Moved(*job, before);
  }
}

absl::StatusOr<Job*> Coordinator::JobOf(const RankKey& rank) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(rank.job));
  DP_RETURN_IF_ERROR(CheckGeneration(*job, rank.generation));
  if (rank.rank < 0 || rank.rank >= job->world_size()) {
    return absl::InvalidArgumentError(absl::StrCat("job ", job->id.ToString(), " has no rank ",
                                                   rank.rank, ", only 0 to ",
                                                   job->world_size() - 1));
  }
  return job;
}

absl::StatusOr<Reply> Coordinator::On(const ReportRank& command, absl::Time at) {
  DP_RETURN_IF_ERROR(state_.workers.Check(command.worker, command.incarnation));
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  if (command.job_submitted_at.value_or(job->submitted_at) != job->submitted_at) {
    return AnotherJob(*job);
  }
  const int rank = command.rank.rank;
  if (job->ranks[rank].worker_id != command.worker) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->id.ToString(), ": rank ", rank, " belongs to worker ",
                     job->ranks[rank].worker, ", not to ", command.worker.ToString()));
  }
  const Sight before = See(*job);
  bool changed = false;
  switch (command.what) {
    case ReportRank::What::kStarted:
      changed = RankStarted(*job, rank, command.pid, at);
      break;
    case ReportRank::What::kExited:
      changed = RankExited(*job, rank, EndOf(command, *job, state_.workers), at);
      break;
    case ReportRank::What::kReleased:
      changed = RankReleased(*job, rank, at);
      if (changed) Release(*job, rank);
      break;
  }
  if (changed) Moved(*job, before);
  return Reply();
}

void Coordinator::Release(const Job& job, int rank) {
  const Rank& r = job.ranks[rank];
  state_.workers.Vacate(r.worker_id, r.slot, {job.id, job.generation, rank});
  TouchWorker(r.worker_id);
}

absl::StatusOr<Reply> Coordinator::On(const JoinWorld& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  const Sight before = See(*job);
  DP_ASSIGN_OR_RETURN(const bool changed,
                      RankJoined(*job, command.rank.rank, command.tells_first_step, at));
  if (changed) Moved(*job, before);
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const CompleteFirstStep& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  // No topic changes, since nobody waits for the first step.
  recorded_ = FirstStepDone(*job, at);
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const AccusePeers& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  for (const int peer : command.missing) {
    DP_RETURN_IF_ERROR(JobOf({job->id, job->generation, peer}).status());
  }
  const Sight before = See(*job);
  recorded_ = PeersAccused(*job, command, at);
  // A suspicion alone is visible to nobody.
  if (job->state != before.state) Moved(*job, before);
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const StoreBatch& command, absl::Time) {
  DP_RETURN_IF_ERROR(store(command.job, command.generation).status());
  DP_ASSIGN_OR_RETURN(GenerationStore::Applied applied,
                      state_.stores.at(command.job).Apply(command));
  recorded_ = applied.recorded;
  for (std::string& key : applied.changed) {
    store_changes_.push_back({Topic::Kind::kStoreKey, command.job.value(), std::move(key)});
  }
  for (std::string& queue : applied.pushed) {
    store_changes_.push_back({Topic::Kind::kStoreElement, command.job.value(), std::move(queue)});
  }
  for (std::string& queue : applied.taken) {
    store_changes_.push_back({Topic::Kind::kStoreTaken, command.job.value(), std::move(queue)});
  }
  if (command.groups.empty()) return Reply(std::move(applied.answer.results));
  return Reply(std::move(applied.answer));
}

Coordinator::Sight Coordinator::See(const Job& job) {
  return {job.state, job.world.state(), job.world.members().size()};
}

// Watchers of the job see every move. The list of jobs and the assignments show less of the job, so
// they are touched only when that part changes. A job of 10,000 ranks moves as often, and each move
// would wake every daemon. The store goes when its world closes, since nobody may write then.
void Coordinator::Moved(const Job& job, const Sight& before) {
  const Sight now = See(job);
  Touch({Topic::Kind::kJob, job.id.value()});
  if (now.state != before.state) {
    Touch({Topic::Kind::kJobList});
    TellMove(job);
    if (now.state == JobState::kStarting || now.state == JobState::kStopping) TouchWorkers(job);
  }
  if (now.world != before.world) {
    TouchWorld(job.id);
  } else if (now.members != before.members) {
    Touch({Topic::Kind::kWorld, job.id.value()});
  }
  if (now.world == WorldState::kClosed && before.world != WorldState::kClosed) {
    state_.stores.erase(job.id);
  }
  if (!job.live()) ReleaseStorePort(job);
  if (!job.terminal()) return;
  const JobRegistry::Retired retired = state_.jobs.Retire(job.id);
  for (const JobId went_on : retired.went_on) Touch({Topic::Kind::kJob, went_on.value()});
  if (retired.forgotten.has_value()) Forgot(*retired.forgotten);
}

void Coordinator::TouchWorld(JobId job) {
  Touch({Topic::Kind::kWorld, job.value()});
  Touch({Topic::Kind::kWorldState, job.value()});
}

void Coordinator::Forgot(JobId job) {
  state_.versions.erase({Topic::Kind::kWorld, job.value()});
  state_.events.Forget(job);
  forgotten_.push_back(job);
}

void Coordinator::ReleaseStorePort(const Job& job) {
  if (job.store_port == 0) return;
  state_.store_ports.Release(job.store_port, job.id, now_);
  state_.jobs.Find(job.id)->store_port = 0;
}

void Coordinator::TouchWorkers(const Job& job) {
  for (const Rank& rank : job.ranks) {
    if (rank.live()) TouchWorker(rank.worker_id);
  }
}

void Coordinator::TouchWorker(WorkerId worker) {
  Touch({Topic::Kind::kAssignment, worker.value()});
  Touch({Topic::Kind::kWorkers});
}

void Coordinator::ForgetWorkers() {
  auto it = state_.versions.lower_bound({Topic::Kind::kAssignment});
  while (it != state_.versions.end() && it->first.kind == Topic::Kind::kAssignment) {
    const bool known = worker(WorkerId(it->first.id)) != nullptr;
    it = known ? std::next(it) : state_.versions.erase(it);
  }
}

Revision Coordinator::version(const Topic& topic) const {
  if (topic.kind == Topic::Kind::kJob) {
    const Job* found = job(JobId(topic.id));
    return found == nullptr ? Revision() : found->version;
  }
  const auto it = state_.versions.find(topic);
  return it == state_.versions.end() ? Revision() : it->second;
}

absl::StatusOr<World> Coordinator::world(JobId id, MemberTable table) const {
  const Job* found = job(id);
  if (found == nullptr) return UnknownJob(id);
  World world = WorldOf(*found, table);
  world.version = version({Topic::Kind::kWorld, id.value()});
  return world;
}

absl::Status Coordinator::CheckWorker(WorkerId id, Incarnation incarnation) const {
  return state_.workers.Check(id, incarnation);
}

absl::StatusOr<Assignment> Coordinator::assignment(WorkerId id, Incarnation incarnation) const {
  DP_RETURN_IF_ERROR(CheckWorker(id, incarnation));
  Assignment assignment = AssignmentOf(*worker(id), state_.jobs);
  assignment.version = version({Topic::Kind::kAssignment, id.value()});
  return assignment;
}

absl::StatusOr<const KeyValues*> Coordinator::store(JobId id, Generation generation) const {
  const Job* found = job(id);
  if (found == nullptr) return UnknownJob(id);
  DP_RETURN_IF_ERROR(CheckGeneration(*found, generation));
  const auto it = state_.stores.find(id);
  if (it != state_.stores.end()) return &it->second.values();
  return absl::FailedPreconditionError(absl::StrCat("job ", id.ToString(), ": generation ",
                                                    generation.ToString(),
                                                    " is over: ", found->world.closing_reason()));
}

uint64_t Coordinator::StateHash() const { return DigestOf(state_); }

}  // namespace dp::core
