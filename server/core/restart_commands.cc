// The coordinator's commands for verdicts on late ranks and on failed jobs.

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/coordinator.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {

absl::StatusOr<Job*> Coordinator::Awaiting(JobId id, Generation generation) {
  DP_ASSIGN_OR_RETURN(Job * job, JobOf({id, generation, 0}));
  if (job->awaits_verdict()) return job;
  return absl::FailedPreconditionError(absl::StrCat("job ", id.ToString(), " is ", Name(job->state),
                                                    job->live() ? " and has ranks" : "",
                                                    "; no verdict is due"));
}

absl::StatusOr<Reply> Coordinator::On(const GiveUpRank& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, JobOf(command.rank));
  const Sight before = See(*job);
  if (RankGivenUp(*job, command.rank.rank, command.reason, at)) Moved(*job, before);
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const RetryJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, Awaiting(command.job, command.generation));
  const Sight before = See(*job);
  Retry(*job, command, at);
  Moved(*job, before);
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const FinishJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, Awaiting(command.job, command.generation));
  const Sight before = See(*job);
  dp::core::Finish(*job, command.reason, at);
  Moved(*job, before);
  return Reply();
}

}  // namespace dp::core
