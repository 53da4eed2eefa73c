// The coordinator's commands about checkpoints, final weights and handovers.

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/coordinator.h"

namespace dp::core {
namespace {

// The record of a finished job does not change any more.
absl::Status CheckNotOver(const Job& job) {
  if (!job.terminal()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id.ToString(), " is over: it is ", Name(job.state)));
}

}  // namespace

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
  Weights weights{command.path, command.sha256, command.bytes};
  if (job->weights == weights) return Reply();
  job->weights = std::move(weights);
  Touch({Topic::Kind::kJob, job->id.value()});
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const AskHandover& command, absl::Time) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  DP_RETURN_IF_ERROR(CheckPreemption(*job, command.preempted_by));
  if (command.reason.empty()) {
    return absl::InvalidArgumentError("reason is missing; say why the ranks shall leave");
  }
  if (job->state != JobState::kStarting && job->state != JobState::kRunning) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job->id.ToString(), " is ",
                                                      Name(job->state),
                                                      ": it has no ranks that could hand over"));
  }
  // The first request stays.
  if (job->handover.has_value()) return Reply();
  job->handover = {command.reason, command.cause, command.preempted_by, command.leave_by,
                   /*names_checkpoint=*/command.version >= 2};
  Touch({Topic::Kind::kJob, job->id.value()});
  TouchWorld(job->id);
  TouchWorkers(*job);
  Tell(*job, command.preempted_by.valid() ? "preempted" : "handover", command.reason);
  return Reply();
}

}  // namespace dp::core
