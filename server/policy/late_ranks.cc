#include "server/policy/late_ranks.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/core/coordinator.h"
#include "server/core/job_lifecycle.h"
#include "server/policy/liveness.h"

namespace dp::core {
namespace {

bool Missing(const Rank& rank) { return rank.state == RankState::kStarted; }

// Whether the world waits only for processes that run to join.
bool WaitsForRunning(const Job& job) {
  if (job.state != JobState::kStarting || job.spec.join_within == absl::InfiniteDuration()) {
    return false;
  }
  const auto assigned = [](const Rank& rank) { return rank.state == RankState::kAssigned; };
  return absl::c_none_of(job.ranks, assigned) && absl::c_any_of(job.ranks, Missing);
}

GiveUpRank Verdict(const Job& job, absl::Duration waited) {
  const auto missing = absl::c_find_if(job.ranks, Missing);
  return {{job.id, job.generation, static_cast<int>(missing - job.ranks.begin())},
          absl::StrCat("it runs, and has not joined for ",
                       absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(100))), "; ",
                       WhyNotSealed(job))};
}

}  // namespace

std::vector<GiveUpRank> LateRanks::Overdue(const Coordinator& coordinator, const Liveness& liveness,
                                           absl::Time now) {
  std::vector<GiveUpRank> overdue;
  std::map<JobId, Wait> waits;
  next_at_ = absl::InfiniteFuture();
  for (const Job* job : coordinator.unfinished_jobs()) {
    if (!WaitsForRunning(*job)) continue;
    const Wait wait = WaitOf(*job, liveness, now);
    const absl::Time due = wait.since + job->spec.join_within;
    if (due <= now) {
      overdue.push_back(Verdict(*job, now - wait.since));
    } else {
      next_at_ = std::min(next_at_, due);
    }
    waits.emplace(job->id, wait);
  }
  waits_ = std::move(waits);
  return overdue;
}

LateRanks::Wait LateRanks::WaitOf(const Job& job, const Liveness& liveness, absl::Time now) const {
  const Wait begun{job.generation, now};
  const auto known = waits_.find(job.id);
  if (known == waits_.end() || known->second.generation != job.generation) return begun;
  for (const Rank& rank : job.ranks) {
    if (Missing(rank) && liveness.missed_heartbeat(rank.worker_id, now)) return begun;
  }
  return {job.generation, std::max(known->second.since, liveness.awake_since())};
}

}  // namespace dp::core
