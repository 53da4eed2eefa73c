// The commands of ranks, and of daemons about their ranks.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/accusations.h"
#include "server/core/coordinator.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {
namespace {

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

absl::StatusOr<Reply> Coordinator::On(const StopEarly& command, absl::Time) {
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  DP_RETURN_IF_ERROR(CheckNotOver(*job));
  if (command.reason.empty()) {
    return absl::InvalidArgumentError("reason is missing; say why the training ends early");
  }
  if (job->stopped_early == command.reason) return Reply();
  job->stopped_early = command.reason;
  Touch({Topic::Kind::kJob, job->id.value()});
  Tell(*job, "stopped-early", command.reason);
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

absl::StatusOr<Reply> Coordinator::On(const GiveUpRank& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  const Sight before = See(*job);
  if (RankGivenUp(*job, command.rank.rank, command.reason, at)) Moved(*job, before);
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

absl::StatusOr<Reply> Coordinator::On(const RegisterCheckpoint& command, absl::Time at) {
  DP_RETURN_IF_ERROR(CheckRegistration(command));
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  DP_RETURN_IF_ERROR(CheckNotOver(*job));
  if (job->checkpoints.Register(command, at)) Touch({Topic::Kind::kJob, job->id.value()});
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const RegisterWeights& command, absl::Time) {
  DP_RETURN_IF_ERROR(CheckRegistration(command));
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  DP_RETURN_IF_ERROR(CheckNotOver(*job));
  Weights weights{command.path, command.sha256, command.bytes, command.modified_at};
  if (job->weights == weights) return Reply();
  job->weights = std::move(weights);
  Touch({Topic::Kind::kJob, job->id.value()});
  return Reply();
}

}  // namespace dp::core
