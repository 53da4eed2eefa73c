#include "server/core/job_lifecycle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/utf8.h"
#include "server/core/generation_end.h"

namespace dp::core {
namespace {

// A line for people names so many ranks and counts the rest.
constexpr size_t kRanksNamedMax = 16;

// Why a daemon stops ranks that should run, if it gives no reason.
constexpr char kShutDown[] = "its worker is shutting down";

std::vector<std::string> Bounded(const std::vector<std::string>& lines) {
  const size_t skipped = lines.size() - std::min(lines.size(), kLastLinesMax);
  std::vector<std::string> bounded(lines.begin() + skipped, lines.end());
  for (std::string& line : bounded) line.resize(Utf8Prefix(line, kLastLineBytesMax).size());
  return bounded;
}

// Only dp's own trainers exit so; another program may mean anything by the code.
bool LostItsPeers(const Job& job, const RankEnd& end) {
  return !job.spec.joins_by_running && end.exit == Exit{Exit::How::kCode, kLostPeersExitCode};
}

// If the job itself ordered the stop, its failure is on record already. A `stopped` rank without
// one was therefore stopped by its daemon.
FailureClass ClassOf(const Job& job, const RankEnd& end) {
  if (end.stopped || LostItsPeers(job, end)) return FailureClass::kInfra;
  if (end.oom) return FailureClass::kOom;
  return end.leaving_peer.empty() ? FailureClass::kUser : FailureClass::kInfra;
}

std::string Circumstances(const Job& job, const RankEnd& end) {
  if (LostItsPeers(job, end)) return ", as it had lost its peers; its last lines say how";
  if (end.stopped) {
    return absl::StrCat(", stopped because ",
                        end.stop_reason.empty()
                            ? kShutDown
                            : std::string(Utf8Prefix(end.stop_reason, kLastLineBytesMax)));
  }
  if (end.oom) return ", killed by the kernel: out of memory (its host's, or memoryMibPerRank)";
  return end.leaving_peer.empty()
             ? ""
             : absl::StrCat(", while worker ", end.leaving_peer, " was shutting down");
}

bool LeftAsAsked(const Exit& exit) { return exit == Exit{Exit::How::kCode, kHandedOverExitCode}; }

// Whether the rank leaves as its job was asked to. The other ranks leave too, and must not be
// stopped before they have saved.
bool HandsOver(const Job& job, const RankEnd& end) {
  return job.handover.has_value() && !end.stopped && LeftAsAsked(end.exit);
}

// A missing rank that has exited with 0 would keep the others waiting for ever.
void StopIfNeverSealed(Job& job, absl::Time at) {
  if (job.world.state() != WorldState::kForming || job.world.members().empty()) return;
  for (const int rank : job.world.missing()) {
    if (job.ranks[rank].state < RankState::kExited) continue;
    EndGeneration(job,
                  FailureOf(job, rank, FailureClass::kUser,
                            absl::StrCat(Whereabouts(job, rank),
                                         " ended with exit code 0 before it joined the world")),
                  at);
    return;
  }
}

void StopForTime(Job& job, absl::string_view how, absl::Time at) {
  Failure failure;
  failure.failure_class = FailureClass::kTimeout;
  failure.message = absl::StrCat("it has run for its maxDuration of ",
                                 absl::FormatDuration(job.spec.scheduling.max_duration), how);
  EndGeneration(job, std::move(failure), at);
}

// A leaving rank tries to save first, if its job saves. The record shows whether it could.
std::string HowTheyLeft(const Job& job) {
  if (!job.spec.saves) {
    return "its ranks have left; nothing was saved, as the job has no train.checkpoint, so it "
           "begins anew";
  }
  if (!job.handover->names_checkpoint) return "its ranks have saved and left";
  const Checkpoint* latest = job.checkpoints.latest();
  if (latest == nullptr) return "its ranks have left; no checkpoint is on record";
  return absl::StrCat("its ranks have left; the latest checkpoint on record is of step ",
                      latest->step);
}

// Once the last rank has left as asked, the slots are free for others. The job continues elsewhere,
// unless its time is up.
void StopIfHandedOver(Job& job, absl::Time at) {
  if (job.failure.has_value() || !job.handover.has_value() || job.ranks.empty()) return;
  bool left = false;
  for (const Rank& rank : job.ranks) {
    if (rank.state < RankState::kExited || !rank.exit.has_value()) return;
    left |= LeftAsAsked(*rank.exit);
  }
  if (!left) return;
  if (job.handover->cause == HandoverCause::kDeadline) {
    return StopForTime(job, absl::StrCat("; ", HowTheyLeft(job)), at);
  }
  Preempt(job, absl::StrCat(HowTheyLeft(job), ": ", job.handover->reason),
          job.handover->preempted_by, at);
}

void End(Job& job, absl::Time at) {
  if (!job.failure.has_value()) {
    for (const Rank& rank : job.ranks) DP_CHECK(rank.succeeded());
    job.state = JobState::kSucceeded;
    job.world.Close("all ranks have ended with exit code 0");
  } else {
    job.state = job.failure->failure_class == FailureClass::kCancel ? JobState::kCancelled
                                                                    : JobState::kFailed;
  }
  job.finished_at = at;
}

// The next generation gets the time that is left.
void StopClock(Job& job, absl::Time at) {
  if (!job.deadline.has_value()) return;
  job.time_left = std::max(*job.deadline - at, absl::ZeroDuration());
  job.deadline.reset();
}

void SettleState(Job& job, absl::Time at) {
  StopIfHandedOver(job, at);
  if (job.state == JobState::kStarting && job.world.state() == WorldState::kSealed) {
    job.state = JobState::kRunning;
    job.running_at = at;
  }
  if (job.live()) return;
  StopClock(job, at);
  if (!job.may_retry()) End(job, at);
}

// Moves the job after its ranks have changed.
void Settle(Job& job, absl::Time at) {
  StopIfNeverSealed(job, at);
  SettleState(job, at);
}

// Settle after a rank has started or joined. If another rank had joined before, the exit of a
// missing rank has closed the world already. Only the first join therefore looks at all ranks, and
// n arrivals take n steps rather than n * n.
void SettleArrival(Job& job, bool was_empty, absl::Time at) {
  if (was_empty) StopIfNeverSealed(job, at);
  SettleState(job, at);
}

// Whether the failure on record may be the consequence of the loss of `worker`: a program's rank
// elsewhere failed by itself.
bool MayFollowFromLoss(const Job& job, const std::string& worker) {
  return job.spec.joins_by_running && job.state == JobState::kStopping &&
         job.failure->failure_class == FailureClass::kUser && job.failure->exit.has_value() &&
         job.failure->worker != worker;
}

// Makes `cause` the root cause of a generation that has ended already.
void BlameInstead(Job& job, Failure cause) {
  Failure& failure = *job.failure;
  absl::StrAppend(&cause.message, "; then ", failure.message);
  cause.at = failure.at;
  cause.generation = failure.generation;
  cause.running_at = failure.running_at;
  cause.before_first_step = failure.before_first_step;
  failure = std::move(cause);
}

// A program that makes no join call has joined once it is known to have run.
void JoinByRunning(Job& job, int rank) {
  if (!job.spec.joins_by_running || job.world.state() == WorldState::kClosed) return;
  DP_CHECK(job.world.Join(rank).ok());
}

}  // namespace

Generation NextGeneration(const Job& job) { return Generation(job.generation.value() + 1); }

void Place(Job& job, std::vector<Rank> ranks, absl::Time at) {
  DP_CHECK(job.state == JobState::kPending);
  DP_CHECK(ranks.size() >= static_cast<size_t>(job.spec.ranks));
  DP_CHECK(ranks.size() <= static_cast<size_t>(job.spec.ranks_max()));
  job.generation = NextGeneration(job);
  job.world = Rendezvous(static_cast<int>(ranks.size()));
  job.ranks = std::move(ranks);
  job.handover.reset();
  job.tells_first_step = false;
  job.first_step_at.reset();
  job.state = JobState::kStarting;
  job.placed_at = at;
  job.not_before = absl::InfinitePast();
  if (job.time_left < absl::InfiniteDuration()) job.deadline = at + job.time_left;
}

bool RankStarted(Job& job, int rank, int64_t pid, absl::Time at) {
  Rank& r = job.ranks.at(rank);
  if (r.state >= RankState::kExited) return false;
  // A fast rank joins before its worker's report arrives; then only the pid is new.
  const bool changed = r.state == RankState::kAssigned || r.pid != pid;
  r.state = std::max(r.state, RankState::kStarted);
  r.pid = pid;
  const bool was_empty = job.world.members().empty();
  JoinByRunning(job, rank);
  SettleArrival(job, was_empty, at);
  return changed;
}

absl::StatusOr<bool> RankJoined(Job& job, int rank, bool tells_first_step, absl::Time at) {
  Rank& r = job.ranks.at(rank);
  if (r.state >= RankState::kExited) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job.id.ToString(), ": rank ", rank,
                                                      " cannot join, it is ", Name(r.state)));
  }
  const bool was_empty = job.world.members().empty();
  DP_ASSIGN_OR_RETURN(const bool changed, job.world.Join(rank));
  if (!changed) return false;
  r.state = RankState::kJoined;
  job.tells_first_step |= tells_first_step;
  SettleArrival(job, was_empty, at);
  return true;
}

bool FirstStepDone(Job& job, absl::Time at) {
  const bool under_way = job.state == JobState::kRunning || job.state == JobState::kStopping;
  if (!under_way || job.first_step_at.has_value()) return false;
  job.first_step_at = at;
  // The failure may have overtaken the report of the first step.
  if (job.failure.has_value()) job.failure->before_first_step = false;
  return true;
}

bool RankExited(Job& job, int rank, const RankEnd& end, absl::Time at) {
  Rank& r = job.ranks.at(rank);
  if (r.state >= RankState::kExited) return false;
  r.state = RankState::kExited;
  if (end.error.empty()) {
    r.exit = end.exit;
    Failure failure = FailureOf(
        job, rank, ClassOf(job, end),
        absl::StrCat(Whereabouts(job, rank), ": ", Describe(end.exit), Circumstances(job, end)));
    failure.last_lines = Bounded(end.last_lines);
    const bool done = end.exit.success() && !end.obeyed;
    // The process may end before its start is reported.
    if (done) JoinByRunning(job, rank);
    if (!done && !HandsOver(job, end)) EndGeneration(job, std::move(failure), at);
  } else {
    EndGeneration(job,
                  FailureOf(job, rank, end.stopped ? FailureClass::kInfra : FailureClass::kStartup,
                            absl::StrCat(Whereabouts(job, rank), " could not be started: ",
                                         std::string(Utf8Prefix(end.error, kStartErrorBytesMax)))),
                  at);
  }
  Settle(job, at);
  return true;
}

bool RankReleased(Job& job, int rank, absl::Time at) {
  Rank& r = job.ranks.at(rank);
  if (!r.live()) return false;
  // A rank that was stopped before its start has no exit to report.
  if (r.state < RankState::kExited) {
    EndGeneration(
        job,
        FailureOf(job, rank, FailureClass::kStartup,
                  absl::StrCat(Whereabouts(job, rank), " was released without having run")),
        at);
  }
  r.state = RankState::kReleased;
  Settle(job, at);
  return true;
}

bool RankLost(Job& job, int rank, const std::string& reason, bool takes_blame, absl::Time at) {
  Rank& r = job.ranks.at(rank);
  if (!r.live()) return false;
  // A rank that is known to have succeeded no longer needs its worker.
  if (!r.succeeded()) {
    Failure loss = FailureOf(job, rank, FailureClass::kInfra,
                             absl::StrCat("worker ", r.worker, " on host ", r.host,
                                          " was lost with rank ", rank, ": ", reason));
    if (takes_blame && r.state < RankState::kExited && MayFollowFromLoss(job, r.worker)) {
      BlameInstead(job, std::move(loss));
    } else {
      EndGeneration(job, std::move(loss), at);
    }
  }
  r.state = RankState::kLost;
  Settle(job, at);
  return true;
}

bool RankGivenUp(Job& job, int rank, const std::string& reason, absl::Time at) {
  if (job.state != JobState::kStarting) return false;
  if (job.ranks.at(rank).state != RankState::kStarted) return false;
  EndGeneration(job,
                FailureOf(job, rank, FailureClass::kHang,
                          absl::StrCat(Whereabouts(job, rank), " hangs: ", reason)),
                at);
  return true;
}

bool Preempt(Job& job, std::string reason, JobId by, absl::Time at) {
  if (job.state != JobState::kStarting && job.state != JobState::kRunning) return false;
  Failure failure;
  failure.failure_class = FailureClass::kPreempt;
  failure.message = std::move(reason);
  failure.preempted_by = by;
  EndGeneration(job, std::move(failure), at);
  return true;
}

void Retry(Job& job, const RetryJob& verdict, absl::Time at) {
  DP_CHECK(job.awaits_verdict() && job.may_retry());
  job.past.push_back({*std::move(job.failure), verdict.counted_as});
  if (job.past.size() > kPastFailuresMax) job.past.pop_front();
  if (verdict.counted_as.has_value()) {
    std::deque<absl::Time>& paid = job.restarts[*verdict.counted_as];
    paid.push_back(at);
    if (paid.size() > size_t{kRestartsMax}) paid.pop_front();
  }
  ++job.restart_count;
  job.failure.reset();
  job.suspicion = {};
  job.placed_at.reset();
  job.running_at.reset();
  job.not_before = verdict.not_before;
  job.state = JobState::kPending;
}

void Finish(Job& job, const std::string& reason, absl::Time at) {
  DP_CHECK(job.awaits_verdict());
  job.not_restarted = std::string(Utf8Prefix(reason, kLastLineBytesMax));
  End(job, at);
}

bool Cancel(Job& job, absl::Time at) {
  if (job.terminal()) return false;
  if (job.failure.has_value()) {
    if (!job.may_retry()) return false;
    job.no_retry = true;
    job.not_restarted = "cancelled while it was stopping";
    Settle(job, at);
    return true;
  }
  Failure failure;
  failure.failure_class = FailureClass::kCancel;
  failure.message = absl::StrCat("cancelled while ", Name(job.state));
  EndGeneration(job, std::move(failure), at);
  Settle(job, at);
  return true;
}

bool Expire(Job& job, absl::Time at) {
  if (job.failure.has_value() || job.terminal()) return false;
  StopForTime(job, "", at);
  Settle(job, at);
  return true;
}

std::string WhyNotSealed(const Job& job) {
  if (job.world.state() != WorldState::kForming) return "";
  const std::set<int>& missing = job.world.missing();
  std::vector<std::string> named;
  for (const int rank : missing) {
    if (named.size() == kRanksNamedMax) {
      named.push_back(absl::StrCat("and ", missing.size() - kRanksNamedMax, " more"));
      break;
    }
    const Rank& r = job.ranks.at(rank);
    named.push_back(absl::StrCat("rank ", rank, " on ", r.worker, " (", Name(r.state), ")"));
  }
  return absl::StrCat(job.world.members().size(), " of ", job.world.size(), " ranks have ",
                      job.spec.joins_by_running ? "started" : "joined",
                      "; missing: ", absl::StrJoin(named, ", "));
}

}  // namespace dp::core
