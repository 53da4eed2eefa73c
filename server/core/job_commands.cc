// The commands of clients and policies about jobs.

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/coordinator.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {

absl::StatusOr<Reply> Coordinator::On(const SubmitJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(const JobRegistry::Submitted submitted,
                      state_.jobs.Submit(command, NextRevision(), at));
  if (submitted.made) {
    Touch({Topic::Kind::kJob, submitted.id.value()});
    Touch({Topic::Kind::kJobList});
    Tell(*job(submitted.id), "submitted", command.user.empty() ? "" : "for " + command.user);
  }
  return Reply(submitted.id);
}

absl::StatusOr<Reply> Coordinator::On(const CancelJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  const Sight before = See(*job);
  if (Cancel(*job, at)) Moved(*job, before);
  return Reply();
}

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
  DP_RETURN_IF_ERROR(CheckNotOver(*job));
  if (!std::exchange(job->held, false)) return Reply();
  Touch({Topic::Kind::kJob, job->id.value()});
  Tell(*job, "released");
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const PrioritizeJob& command, absl::Time) {
  DP_RETURN_IF_ERROR(CheckPriority(command.priority));
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  DP_RETURN_IF_ERROR(CheckNotOver(*job));
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

absl::StatusOr<Reply> Coordinator::On(const ExpireJob& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(Job * job, state_.jobs.Get(command.job));
  const Sight before = See(*job);
  if (Expire(*job, at)) Moved(*job, before);
  return Reply();
}

Event Coordinator::Farewell(const Job& job, const ForgetJob& command) const {
  std::string text =
      absl::StrCat(job.spec.name, " of ", OwnerOf(job), ", submitted at ",
                   absl::FormatTime(absl::RFC3339_sec, job.submitted_at, absl::UTCTimeZone()));
  // The event of the submission, if it is still there, is the first one of the job.
  const auto first = state_.events.After(0, job.id, 1);
  if (!first.empty() && first.front()->kind == "submitted" && !first.front()->actor.empty()) {
    absl::StrAppend(&text, " by ", first.front()->actor);
  }
  const bool asked = !command.user.empty();
  if (!asked) absl::StrAppend(&text, "; its time on record was over, or later jobs took its room");
  if (command.with_files) absl::StrAppend(&text, "; with its files");
  return {.at = now_,
          .job = job.id,
          .kind = asked ? "removed" : "forgotten",
          .text = std::move(text),
          .actor = actor_,
          .owner = job.owner};
}

absl::StatusOr<Reply> Coordinator::On(const ForgetJob& command, absl::Time) {
  const bool known = state_.jobs.Find(command.job) != nullptr;
  if (!known && command.job.valid() && command.job.value() <= state_.jobs.last_id()) return Reply();
  DP_ASSIGN_OR_RETURN(const Job* job, state_.jobs.Get(command.job));
  if (command.submitted_at.value_or(job->submitted_at) != job->submitted_at) {
    return AnotherJob(*job);
  }
  if (!job->terminal()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id.ToString(), " is ", Name(job->state), ", not over; cancel it first"));
  }
  Event farewell = Farewell(*job, command);
  state_.jobs.Forget(command.job);
  Forgot(command.job);
  if (command.version > 1) {
    state_.events.Add(std::move(farewell));
    Touch({Topic::Kind::kEvents});
  }
  Touch({Topic::Kind::kJob, command.job.value()});
  Touch({Topic::Kind::kJobList});
  return Reply();
}

}  // namespace dp::core
