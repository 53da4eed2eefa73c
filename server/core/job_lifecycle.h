#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/command.h"
#include "server/core/job.h"

// The events of a job, and how they move it (docs/coordinator.md has the diagram). Each function
// returns whether anything changed: a repeated or late report is a no-op. Pure but for `job`.

namespace dp::core {

// The generation that Place makes.
Generation NextGeneration(const Job& job);

// Gives a pending job its ranks: the next generation forms.
void Place(Job& job, std::vector<Rank> ranks, absl::Time at);

// Also joins the rank if its job joins by running.
bool RankStarted(Job& job, int rank, int64_t pid, absl::Time at);

// Errors: InvalidArgument no such rank; FailedPrecondition its process has ended, or the world is
// closed.
absl::StatusOr<bool> RankJoined(Job& job, int rank, bool tells_first_step, absl::Time at);

// The generation has done its first step.
bool FirstStepDone(Job& job, absl::Time at);

// How a rank's process ended; a non-empty `error` says why no process was started.
struct RankEnd {
  Exit exit;
  std::string error;
  std::vector<std::string> last_lines;
  bool stopped = false;  // its worker stopped it, or never started it
  std::string stop_reason = {};
  bool oom = false;
  bool obeyed = false;  // with `stopped`: exit code 0 means that it obeyed, not that it finished
  std::string leaving_peer = {};  // the worker of another rank, shutting down
};
bool RankExited(Job& job, int rank, const RankEnd& end, absl::Time at);

bool RankReleased(Job& job, int rank, absl::Time at);

// The rank's worker was lost. `takes_blame`: the loss is the root cause even if a rank of a program
// failed on another worker before the loss was known. Such a rank fails because its peer is gone,
// and cannot say so.
bool RankLost(Job& job, int rank, const std::string& reason, bool takes_blame, absl::Time at);

// The rank's process runs, but has not joined in time.
bool RankGivenUp(Job& job, int rank, const std::string& reason, absl::Time at);

// Ends the generation of a placed job whose slots are needed for something else, or for job `by`. A
// job with restarts gets another generation, and no budget pays.
bool Preempt(Job& job, std::string reason, JobId by, absl::Time at);

// Ends the job. A job that is stopping after a failure ends with that failure, without a retry.
bool Cancel(Job& job, absl::Time at);

// Precondition of both: job.awaits_verdict(). Retry also needs may_retry().
void Retry(Job& job, const RetryJob& verdict, absl::Time at);
void Finish(Job& job, const std::string& reason, absl::Time at);

// The job's deadline has passed.
bool Expire(Job& job, absl::Time at);

// Why the forming world of a placed job is not sealed: the missing ranks with their workers. Empty
// if the world is not forming.
std::string WhyNotSealed(const Job& job);

}  // namespace dp::core
