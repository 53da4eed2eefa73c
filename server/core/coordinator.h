#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/id.h"
#include "server/core/assignment.h"
#include "server/core/command.h"
#include "server/core/job.h"
#include "server/core/outcome.h"
#include "server/core/state.h"
#include "server/core/worker.h"
#include "server/core/world.h"
#include "store/key_values.h"

namespace dp::core {

// The deterministic machine: the same commands in the same order give the same state and outcomes.
// It composes JobRegistry, WorkerTable, the worlds and the stores; it branches, they compute.
// docs/coordinator.md describes its states and rules. Not thread-safe; owned by one thread. Never
// reads a clock: a command brings its time. Returned pointers are valid until the next Apply.
class Coordinator {
 public:
  Coordinator() = default;
  // Continues from the state of an earlier coordinator.
  explicit Coordinator(State state) : state_(std::move(state)) {}

  // Validates and records one command. A rejected command changes nothing.
  Outcome Apply(const Command& command);

  Epoch epoch() const { return state_.epoch; }
  Revision revision() const { return state_.revision; }
  // The revision at which the topic last changed. Not valid if it never did, or left the record
  // with its job or worker. Store keys have versions of their own: KeyValues.
  Revision version(const Topic& topic) const;

  // Null if unknown or no longer on record.
  const Job* job(JobId id) const { return state_.jobs.Find(id); }
  // Oldest first.
  std::vector<const Job*> jobs() const { return state_.jobs.jobs(); }
  // The jobs that are not terminal, oldest first.
  std::vector<const Job*> unfinished_jobs() const { return state_.jobs.unfinished(); }
  // The job that a submission would make now. Errors: those of SubmitJob.
  absl::StatusOr<Job> Draft(const SubmitJob& request, absl::Time now) const {
    return state_.jobs.Draft(request, NextRevision(), now);
  }
  // Errors: NotFound unknown job. A job not yet placed has a forming world of generation 0.
  absl::StatusOr<World> world(JobId id, MemberTable table = MemberTable::kWhole) const;

  // Null if unknown or no longer on record.
  const Worker* worker(WorkerId id) const { return state_.workers.Find(id); }
  // By name in natural order, with the lost workers that WorkerTable still lists.
  std::vector<const Worker*> workers() const { return state_.workers.workers(); }
  // Whether this is the current incarnation of the worker: the answer to a heartbeat.
  // Errors: NotFound unknown worker; FailedPrecondition lost, or replaced by another incarnation.
  absl::Status CheckWorker(WorkerId id, Incarnation incarnation) const;
  // Errors: as CheckWorker.
  absl::StatusOr<Assignment> assignment(WorkerId id, Incarnation incarnation) const;

  // Errors: NotFound unknown job; FailedPrecondition stale generation, or its world is closed.
  absl::StatusOr<const KeyValues*> store(JobId job, Generation generation) const;

  // The limits of each store, from this epoch on.
  const KeyValueLimits& store_limits() const { return state_.store_limits; }

  // The digest of the state (digest.h).
  uint64_t StateDigest() const;
  // For snapshots, and the checks of invariants.h.
  const State& state() const { return state_; }

 private:
  // One method per command. It validates, changes the state and touches topics. It sets `recorded_`
  // if the command must be journalled although no topic changed.
  absl::StatusOr<Reply> On(const StartEpoch& command, absl::Time at);
  // In job_commands.cc.
  absl::StatusOr<Reply> On(const SubmitJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const CancelJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const HoldJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const ReleaseJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const PrioritizeJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const RequeueJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const AskHandover& command, absl::Time at);
  absl::StatusOr<Reply> On(const ExpireJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const ForgetJob& command, absl::Time at);
  // In access_commands.cc.
  absl::StatusOr<Reply> On(const GrantRole& command, absl::Time at);
  absl::StatusOr<Reply> On(const RevokeAccess& command, absl::Time at);
  absl::StatusOr<Reply> On(const UseToken& command, absl::Time at);
  // In generation_commands.cc.
  absl::StatusOr<Reply> On(const PlaceJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const RetryJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const FinishJob& command, absl::Time at);
  // In worker_commands.cc.
  absl::StatusOr<Reply> On(const RegisterWorker& command, absl::Time at);
  absl::StatusOr<Reply> On(const LoseWorker& command, absl::Time at);
  absl::StatusOr<Reply> On(const LeaveWorker& command, absl::Time at);
  absl::StatusOr<Reply> On(const ReportSlots& command, absl::Time at);
  absl::StatusOr<Reply> On(const DrainWorker& command, absl::Time at);
  absl::StatusOr<Reply> On(const UndrainWorker& command, absl::Time at);
  // In rank_commands.cc.
  absl::StatusOr<Reply> On(const ReportRank& command, absl::Time at);
  absl::StatusOr<Reply> On(const JoinWorld& command, absl::Time at);
  absl::StatusOr<Reply> On(const CompleteFirstStep& command, absl::Time at);
  absl::StatusOr<Reply> On(const StopEarly& command, absl::Time at);
  absl::StatusOr<Reply> On(const AccusePeers& command, absl::Time at);
  absl::StatusOr<Reply> On(const GiveUpRank& command, absl::Time at);
  absl::StatusOr<Reply> On(const StoreBatch& command, absl::Time at);
  absl::StatusOr<Reply> On(const RegisterCheckpoint& command, absl::Time at);
  absl::StatusOr<Reply> On(const RegisterWeights& command, absl::Time at);

  // The job of a rank that sent a command. Errors: NotFound; FailedPrecondition stale generation;
  // InvalidArgument no such rank.
  absl::StatusOr<Job*> JobOf(const RankKey& rank);
  // A job that waits for RetryJob or FinishJob. Errors: NotFound; FailedPrecondition stale
  // generation, or it does not wait.
  absl::StatusOr<Job*> Awaiting(JobId id, Generation generation);
  absl::Status CheckPlacement(const Job& job, const PlaceJob& command) const;
  absl::Status CheckStorePort(const Job& job, int port) const;
  // Errors: FailedPrecondition `by`, if valid, may not take the slots of `victim`.
  absl::Status CheckPreemption(const Job& victim, JobId by) const;
  // Errors: NotFound; FailedPrecondition it is not pending.
  absl::StatusOr<Job*> PendingJob(JobId id);
  // Whether the record has a role, a join, a job or a worker of this name.
  bool HasHeardOf(const security::Identity& identity) const;
  void LoseRanks(const std::vector<RankKey>& ranks, const LoseWorker& command, absl::Time at);

  // The part of a job that watchers of its topics see; compared before and after a move.
  struct Sight {
    JobState state;
    WorldState world;
    size_t members;
  };
  static Sight See(const Job& job);
  // Touches the topics of what changed since `before`. Cleans up if the world has closed or the job
  // has ended.
  void Moved(const Job& job, const Sight& before);
  // Touches the workers of the ranks that hold a slot: their assignments have changed.
  void TouchWorkers(const Job& job);
  void Release(const Job& job, int rank);
  void ReleaseStorePort(const Job& job);
  // Drops what the machine keeps beside the record of a job, and adds the job to the outcome.
  void Forgot(JobId job);
  // Drops the topics of workers that are no longer on record.
  void ForgetWorkers();
  void TouchWorker(WorkerId worker);
  void Touch(Topic topic) { touched_.insert(std::move(topic)); }
  // For changes of a world other than a join.
  void TouchWorld(JobId job);
  // Adds an event to the history.
  void Tell(const Job& job, absl::string_view kind, std::string text = "");
  void Tell(const Worker& worker, absl::string_view kind, std::string text = "");
  // About people and their access.
  void Tell(absl::string_view kind, std::string text);
  void TellMove(const Job& job);
  // The event about a job that leaves the record. It stays when the job's other events go.
  Event Farewell(const Job& job, const ForgetJob& command) const;
  void Stamp(const Topic& topic);
  Outcome Finish(absl::StatusOr<Reply> reply);
  // The revision that the current command makes if it changes something.
  Revision NextRevision() const { return Revision(state_.revision.value() + 1); }

  State state_;
  // About the current command: its time and its effects.
  absl::Time now_;
  std::string actor_;
  std::set<Topic> touched_;
  std::vector<Topic> store_changes_;  // their versions are in KeyValues
  bool recorded_ = false;
  std::vector<JobId> forgotten_;
};

}  // namespace dp::core
