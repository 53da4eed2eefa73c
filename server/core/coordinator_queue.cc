// The coordinator's commands about the queue and the workers, and the history of events.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "server/core/coordinator.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {
namespace {

// A line for people.
constexpr size_t kDrainReasonBytesMax = 1 << 10;

// A line names so many workers and counts the rest.
constexpr size_t kWorkersNamedMax = 8;

// Ranks of one worker are adjacent.
std::string WorkersOf(const Job& job) {
  std::vector<std::string> names;
  for (const Rank& rank : job.ranks) {
    if (names.empty() || names.back() != rank.worker) names.push_back(rank.worker);
  }
  if (names.size() <= kWorkersNamedMax) return absl::StrJoin(names, ", ");
  const size_t more = names.size() - kWorkersNamedMax;
  names.resize(kWorkersNamedMax);
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", more, " more");
}

absl::Status CheckGoesOn(const Job& job) {
  if (!job.terminal()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id.ToString(), " is over: ", Name(job.state)));
}

}  // namespace

absl::StatusOr<Job*> Coordinator::PendingJob(JobId id) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(id));
  if (job->state == JobState::kPending) return job;
  return absl::FailedPreconditionError(absl::StrCat("job ", id.ToString(), " is ", Name(job->state),
                                                    "; only a pending job can be held"));
}

absl::StatusOr<Reply> Coordinator::On(const HoldJob& command, absl::Time) {
  DP_ASSIGN_OR_RETURN(Job * job, PendingJob(command.job));
  if (std::exchange(job->held, true)) return Reply();
  Touch({Topic::Kind::kJob, job->id.value()});
  Tell(*job, "held");
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const ReleaseJob& command, absl::Time) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  DP_RETURN_IF_ERROR(CheckGoesOn(*job));
  if (!std::exchange(job->held, false)) return Reply();
  Touch({Topic::Kind::kJob, job->id.value()});
  Tell(*job, "released");
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const PrioritizeJob& command, absl::Time) {
  DP_RETURN_IF_ERROR(CheckPriority(command.priority));
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  DP_RETURN_IF_ERROR(CheckGoesOn(*job));
  const int before = std::exchange(job->priority, command.priority);
  if (before == command.priority) return Reply();
  Touch({Topic::Kind::kJob, job->id.value()});
  Tell(*job, "priority", absl::StrCat("from ", before, " to ", command.priority));
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const RequeueJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  const bool preempted =
      job->state == JobState::kStopping && job->failure->failure_class == FailureClass::kPreempt;
  if (job->generation != command.generation || preempted) return Reply();
  const bool runs = job->state == JobState::kStarting || job->state == JobState::kRunning;
  if (!runs && job->state != JobState::kPending) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id.ToString(), " is ", Name(job->state), "; it cannot be queued again"));
  }
  if (runs && !job->spec.restart.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id.ToString(), " has one generation only, and that is ", Name(job->state)));
  }
  DP_RETURN_IF_ERROR(CheckPreemption(*job, command.preempted_by));
  const Sight before = See(*job);
  if (command.reason.empty()) job->queued = NextRevision();
  if (command.preempted_by.valid()) Tell(*job, "preempted", command.reason);
  if (runs) {
    const JobId by = job->handover.has_value() ? job->handover->preempted_by : JobId();
    Preempt(*job, command.reason.empty() ? "requeued" : command.reason,
            command.preempted_by.valid() ? command.preempted_by : by, at);
  }
  if (!runs) Tell(*job, "requeued");
  Moved(*job, before);
  return Reply();
}

absl::Status Coordinator::CheckPreemption(const Job& victim, JobId by) const {
  if (!by.valid()) return absl::OkStatus();
  const Job* other = job(by);
  const bool may = victim.spec.scheduling.preemptible && other != nullptr &&
                   other->state == JobState::kPending && other->priority > victim.priority;
  if (may) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", victim.id.ToString(), " does not leave its slots to job ", by.ToString(),
      "; only a pending one of higher priority takes those of one that is preemptible"));
}

absl::StatusOr<Reply> Coordinator::On(const ExpireJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  const Sight before = See(*job);
  if (Expire(*job, at)) Moved(*job, before);
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const ForgetJob& command, absl::Time) {
  DP_ASSIGN_OR_RETURN(const Job* job, state_.jobs.Get(command.job));
  if (!job->terminal()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->id.ToString(), " is ", Name(job->state), ", not over"));
  }
  state_.jobs.Forget(command.job);
  Forgot(command.job);
  Touch({Topic::Kind::kJob, command.job.value()});
  Touch({Topic::Kind::kJobList});
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const ReportSlots& command, absl::Time) {
  DP_RETURN_IF_ERROR(state_.workers.Check(command.worker, command.incarnation));
  const Worker& reporter = *worker(command.worker);
  const std::map<int, std::string> before = reporter.unhealthy;
  DP_ASSIGN_OR_RETURN(const bool news, state_.workers.SetUnhealthy(command));
  if (!news) return Reply();
  Touch({Topic::Kind::kWorkers});
  for (const auto& [slot, reason] : command.unhealthy) {
    if (before.contains(slot)) continue;
    Tell(reporter, "slot-unhealthy", absl::StrCat("slot ", slot, ": ", reason));
  }
  for (const auto& [slot, reason] : before) {
    if (!command.unhealthy.contains(slot)) {
      Tell(reporter, "slot-healthy", absl::StrCat("slot ", slot));
    }
  }
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const DrainWorker& command, absl::Time at) {
  if (command.reason.empty() || command.reason.size() > kDrainReasonBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the reason of a drain has ", command.reason.size(),
                     " bytes; give one of 1 to ", kDrainReasonBytesMax));
  }
  DP_ASSIGN_OR_RETURN(const WorkerId id, state_.workers.IdOf(command.worker));
  if (!state_.workers.SetDrain(id, {command.reason, command.hand_over, at})) return Reply();
  Touch({Topic::Kind::kWorkers});
  Tell(*worker(id), "drained", command.reason);
  return Reply(id);
}

absl::StatusOr<Reply> Coordinator::On(const UndrainWorker& command, absl::Time) {
  DP_ASSIGN_OR_RETURN(const WorkerId id, state_.workers.IdOf(command.worker));
  const std::optional<Drain>& drain = worker(id)->drain;
  if (drain && !command.reason.empty() && drain->reason != command.reason) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", command.worker, " is drained for another reason: ", drain->reason,
                     "; the drain that was to end had the reason: ", command.reason));
  }
  if (!state_.workers.EndDrain(id)) return Reply();
  Touch({Topic::Kind::kWorkers});
  Tell(*worker(id), "undrained");
  return Reply(id);
}

void Coordinator::Tell(const Job& job, absl::string_view kind, std::string text) {
  state_.events.Add(
      {.at = now_, .job = job.id, .kind = std::string(kind), .text = std::move(text)});
  Touch({Topic::Kind::kEvents});
}

void Coordinator::Tell(const Worker& worker, absl::string_view kind, std::string text) {
  state_.events.Add(
      {.at = now_, .worker = worker.name, .kind = std::string(kind), .text = std::move(text)});
  Touch({Topic::Kind::kEvents});
}

void Coordinator::TellMove(const Job& job) {
  switch (job.state) {
    case JobState::kPending:
      return Tell(job, "retried", job.past.empty() ? "" : job.past.back().failure.message);
    case JobState::kStarting:
      return Tell(job, "placed",
                  absl::StrCat("generation ", job.generation.ToString(), " on ", WorkersOf(job)));
    case JobState::kRunning:
    case JobState::kSucceeded:
      return Tell(job, Name(job.state));
    case JobState::kStopping:
    case JobState::kFailed:
    case JobState::kCancelled:
      return Tell(job, Name(job.state), job.failure->message);
  }
}

}  // namespace dp::core
