#include "server/policy/due_jobs.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/core/coordinator.h"

namespace dp::core {
namespace {

bool Runs(const Job& job) {
  return job.state == JobState::kStarting || job.state == JobState::kRunning;
}

absl::Time DeadlineOf(const Job& job) { return job.deadline.value_or(absl::InfiniteFuture()); }

// InfiniteFuture if the job need not be asked, or was asked before.
absl::Time AskAt(const Job& job) {
  if (!Runs(job) || !job.spec.saves || job.handover.has_value()) return absl::InfiniteFuture();
  return DeadlineOf(job) - SavesBefore(job.spec);
}

absl::Time LeaveBy(const Job& job) {
  return Runs(job) && job.handover.has_value() ? job.handover->leave_by : absl::InfiniteFuture();
}

AskHandover Ask(const Job& job) {
  return {job.id,
          absl::StrCat("its maxDuration of ",
                       absl::FormatDuration(job.spec.scheduling.max_duration), " is nearly over"),
          HandoverCause::kDeadline};
}

RequeueJob Requeue(const Job& job) {
  return {job.id, job.generation,
          absl::StrCat("its ranks have not left within ", absl::FormatDuration(job.spec.grace),
                       ", as they were asked to: ", job.handover->reason)};
}

void AddWhatIsDue(const Job& job, absl::Time now, DueJobs& due) {
  const auto wait = [&due](absl::Time at) { due.next_at = std::min(due.next_at, at); };
  // A job that is being stopped needs no further verdict.
  if (job.state == JobState::kStopping) return;
  wait(std::min(DeadlineOf(job), LeaveBy(job)));
  if (AskAt(job) > now) wait(AskAt(job));
  if (DeadlineOf(job) <= now) return due.expire.push_back({job.id});
  if (LeaveBy(job) <= now) return due.requeue.push_back(Requeue(job));
  if (AskAt(job) <= now) due.ask.push_back(Ask(job));
}

}  // namespace

absl::Duration SavesBefore(const JobSpec& spec) {
  return std::min(spec.grace, spec.scheduling.max_duration / 2);
}

DueJobs FindDueJobs(const Coordinator& coordinator, absl::Time now) {
  DueJobs due;
  for (const Job* job : coordinator.unfinished_jobs()) AddWhatIsDue(*job, now, due);
  for (const auto& [at, job] : coordinator.state().jobs.expiries()) {
    due.next_at = std::min(due.next_at, at);
    if (at > now) break;
    due.forget.push_back({job});
  }
  return due;
}

}  // namespace dp::core
