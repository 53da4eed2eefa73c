#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/id.h"
#include "base/store/key_values.h"
#include "server/core/assignment.h"
#include "server/core/command.h"
#include "server/core/job.h"
#include "server/core/outcome.h"
#include "server/core/state.h"
#include "server/core/worker.h"
#include "server/core/world.h"

namespace dp::core {

// The deterministic machine: the same commands in the same order give the same state and outcomes.
// It composes JobRegistry, WorkerTable, the worlds and the stores; it branches, they compute.
// docs/coordinator.md tells its states and rules. Not thread-safe; owned by one thread. Never reads
// a clock: a command brings its time. Pointers it answers are valid until the next Apply.
class Coordinator {
 public:
  Coordinator() = default;
  // Goes on from a state that an earlier one had.
  explicit Coordinator(State state) : state_(std::move(state)) {}

  // Validates and records one command. A command that is refused changes nothing.
  Outcome Apply(const Command& command);

  Epoch epoch() const { return state_.epoch; }
  Revision revision() const { return state_.revision; }
  // The revision at which the topic last changed; not valid when it never did, or is forgotten with
  // the record of its job. Store keys have versions of their own: KeyValues.
  Revision version(const Topic& topic) const;

  // Null when unknown, or forgotten long after its end.
  const Job* job(JobId id) const { return state_.jobs.Find(id); }
  // Oldest first.
  std::vector<const Job*> jobs() const { return state_.jobs.jobs(); }
  // Those of them that are not terminal.
  std::vector<const Job*> unfinished_jobs() const { return state_.jobs.unfinished(); }
  // The job that a submission would make now. Errors: those of SubmitJob.
  absl::StatusOr<Job> Draft(const SubmitJob& request, absl::Time now) const {
    return state_.jobs.Draft(request, NextRevision(), now);
  }
  // Errors: NotFound unknown job. A job not yet placed has a forming world of generation 0.
  absl::StatusOr<World> world(JobId id, MemberTable table = MemberTable::kWhole) const;

  // Null when unknown, or forgotten long after its loss.
  const Worker* worker(WorkerId id) const { return state_.workers.Find(id); }
  // By name in natural order; those lost within the last hour too.
  std::vector<const Worker*> workers() const { return state_.workers.workers(); }
  // Whether this is the current life of the worker: the answer to a heartbeat.
  // Errors: NotFound unknown worker; FailedPrecondition lost, or another life has taken over.
  absl::Status CheckWorker(WorkerId id, Incarnation incarnation) const;
  // Errors: as CheckWorker.
  absl::StatusOr<Assignment> assignment(WorkerId id, Incarnation incarnation) const;

  // Errors: NotFound unknown job; FailedPrecondition stale generation, or its world is closed.
  absl::StatusOr<const KeyValues*> store(JobId job, Generation generation) const;

  // Of each store, from this epoch on.
  const KeyValueLimits& store_limits() const { return state_.store_limits; }

  // A digest of the whole state, equal after replay of the same journal.
  uint64_t StateHash() const;
  // For snapshots, and the checks of invariants.h.
  const State& state() const { return state_; }

 private:
  // One method per command. They validate, change the state and touch topics; `recorded_` says
  // that the command must be journalled although no topic moved.
  absl::StatusOr<Reply> On(const StartEpoch& command, absl::Time at);
  absl::StatusOr<Reply> On(const SubmitJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const CancelJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const PlaceJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const RegisterWorker& command, absl::Time at);
  absl::StatusOr<Reply> On(const LoseWorker& command, absl::Time at);
  absl::StatusOr<Reply> On(const LeaveWorker& command, absl::Time at);
  absl::StatusOr<Reply> On(const ReportRank& command, absl::Time at);
  absl::StatusOr<Reply> On(const JoinWorld& command, absl::Time at);
  absl::StatusOr<Reply> On(const CompleteFirstStep& command, absl::Time at);
  absl::StatusOr<Reply> On(const AccusePeers& command, absl::Time at);
  absl::StatusOr<Reply> On(const StoreBatch& command, absl::Time at);
  absl::StatusOr<Reply> On(const GiveUpRank& command, absl::Time at);
  // In checkpoint_commands.cc.
  absl::StatusOr<Reply> On(const RegisterCheckpoint& command, absl::Time at);
  absl::StatusOr<Reply> On(const RegisterWeights& command, absl::Time at);
  absl::StatusOr<Reply> On(const AskHandover& command, absl::Time at);
  // In restart_commands.cc.
  absl::StatusOr<Reply> On(const RetryJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const FinishJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const HoldJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const ReleaseJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const PrioritizeJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const RequeueJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const ExpireJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const ForgetJob& command, absl::Time at);
  absl::StatusOr<Reply> On(const ReportSlots& command, absl::Time at);
  absl::StatusOr<Reply> On(const DrainWorker& command, absl::Time at);
  absl::StatusOr<Reply> On(const UndrainWorker& command, absl::Time at);

  // The job of a rank's act. Errors: NotFound; FailedPrecondition stale generation;
  // InvalidArgument no such rank.
  absl::StatusOr<Job*> JobOf(const RankKey& rank);
  // A job that waits for RetryJob or FinishJob. Errors: NotFound; FailedPrecondition stale
  // generation, or it does not wait.
  absl::StatusOr<Job*> Awaiting(JobId id, Generation generation);
  absl::Status CheckPlacement(const Job& job, const PlaceJob& command) const;
  absl::Status CheckStorePort(const Job& job, int port) const;
  // Whether `by` may take the slots of the other; it may where nobody is named.
  absl::Status CheckPreemption(const Job& victim, JobId by) const;
  // Errors: NotFound; FailedPrecondition it is not pending.
  absl::StatusOr<Job*> PendingJob(JobId id);
  void LoseRanks(const std::vector<RankKey>& ranks, const std::string& reason, absl::Time at);

  // What watchers of a job's topics see of it; compared before and after a move.
  struct Sight {
    JobState state;
    WorldState world;
    size_t members;
  };
  static Sight See(const Job& job);
  // Touches what changed of the job since `before`, and tidies up when its world has closed or it
  // has ended.
  void Moved(const Job& job, const Sight& before);
  // Of the ranks that hold a slot: what their workers shall do has changed.
  void TouchWorkers(const Job& job);
  void Release(const Job& job, int rank);
  void ReleaseStorePort(const Job& job);
  // Says that a job is no longer on record.
  void Forgot(JobId job);
  // Drops the topics of workers that are no longer on record.
  void ForgetWorkers();
  void TouchWorker(WorkerId worker);
  void Touch(Topic topic) { touched_.insert(std::move(topic)); }
  // For changes of a world beyond its members.
  void TouchWorld(JobId job);
  // Writes the history.
  void Tell(const Job& job, absl::string_view kind, std::string text = "");
  void Tell(const Worker& worker, absl::string_view kind, std::string text = "");
  void TellMove(const Job& job);
  void Stamp(const Topic& topic);
  Outcome Finish(absl::StatusOr<Reply> reply);
  // That of the command in hand, where it changes something.
  Revision NextRevision() const { return Revision(state_.revision.value() + 1); }

  State state_;
  // Of the command in hand: its time, and what it did.
  absl::Time now_;
  std::set<Topic> touched_;
  std::vector<Topic> store_changes_;  // these have no version of the machine's
  bool recorded_ = false;
  std::vector<JobId> forgotten_;
};

}  // namespace dp::core
