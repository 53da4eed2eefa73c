#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/command.h"
#include "server/core/job.h"

// What can happen to a job, and how it moves (docs/coordinator.md has the diagram). Each function
// returns whether anything changed: a repeated or late report changes nothing. Pure but for `job`.

namespace dp::core {

// The generation that Place makes.
Generation NextGeneration(const Job& job);

// Gives a pending job its ranks: the next generation forms.
void Place(Job& job, std::vector<Rank> ranks, absl::Time at);

// Joins the rank too where that is what its job asks for.
bool RankStarted(Job& job, int rank, int64_t pid, absl::Time at);

// Errors: InvalidArgument no such rank; FailedPrecondition its process has ended, or the world is
// closed.
absl::StatusOr<bool> RankJoined(Job& job, int rank, bool tells_first_step, absl::Time at);

// The first step of its generation is done.
bool FirstStepDone(Job& job, absl::Time at);

// How a rank's process ended; a non-empty `error` says why there was none.
struct RankEnd {
  Exit exit;
  std::string error;
  std::vector<std::string> last_lines;
  bool stopped = false;  // its worker ended it, or never began it
  std::string stop_reason = {};
  bool oom = false;
  bool obeyed = false;  // with `stopped`: exit code 0 says that it obeyed, not that it was done
  std::string leaving_peer = {};  // another rank's worker, which is shutting down
};
bool RankExited(Job& job, int rank, const RankEnd& end, absl::Time at);

bool RankReleased(Job& job, int rank, absl::Time at);

// The rank's worker was lost.
bool RankLost(Job& job, int rank, const std::string& reason, absl::Time at);

// Its process runs and has not joined for too long.
bool RankGivenUp(Job& job, int rank, const std::string& reason, absl::Time at);

// Ends the generation of a placed job, whose slots are wanted for something else, or `by` another
// job; with a restart it gets another one, and no budget is spent.
bool Preempt(Job& job, std::string reason, JobId by, absl::Time at);

// Ends the job; one that is stopping after a failure keeps that as its end, and is not retried.
bool Cancel(Job& job, absl::Time at);

// Precondition of both: job.awaits_verdict(); of Retry also may_retry().
void Retry(Job& job, const RetryJob& verdict, absl::Time at);
void Finish(Job& job, const std::string& reason, absl::Time at);

// Its deadline has passed.
bool Expire(Job& job, absl::Time at);

// Why the world of a placed job is not sealed: the missing ranks with their workers. Empty once it
// was.
std::string WhyNotSealed(const Job& job);

}  // namespace dp::core
