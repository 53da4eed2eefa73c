#include "server/core/due_jobs.h"

#include <algorithm>
#include <optional>

#include "server/core/coordinator.h"

namespace dp::core {
namespace {

// InfiniteFuture where nothing is due of it.
absl::Time DueAt(const Job& job) {
  if (job.terminal()) return *job.finished_at + job.spec.scheduling.ttl_after_finish;
  // While it is being stopped, all is said.
  if (job.state == JobState::kStopping) return absl::InfiniteFuture();
  return job.deadline.value_or(absl::InfiniteFuture());
}

}  // namespace

DueJobs FindDueJobs(const Coordinator& coordinator, absl::Time now) {
  DueJobs due;
  for (const Job* job : coordinator.jobs()) {
    const absl::Time at = DueAt(*job);
    if (at > now) {
      due.next_at = std::min(due.next_at, at);
    } else if (job->terminal()) {
      due.forget.push_back({job->id});
    } else {
      due.expire.push_back({job->id});
    }
  }
  return due;
}

}  // namespace dp::core
