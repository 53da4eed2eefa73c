#include "server/core/assignment.h"

#include <algorithm>

#include "base/check.h"
#include "server/core/job_registry.h"
#include "server/core/worker.h"

namespace dp::core {

Assignment AssignmentOf(const Worker& worker, const JobRegistry& jobs) {
  Assignment assignment;
  for (const std::optional<RankKey>& holder : worker.slots) {
    if (!holder.has_value()) continue;
    const Job* job = jobs.Find(holder->job);
    DP_CHECK(job != nullptr);
    const Rank& rank = job->ranks.at(holder->rank);
    assignment.ranks.push_back({*holder, job->spec.ranks, rank.local_rank, rank.slot,
                                job->state == JobState::kStopping, job->spec.payload,
                                job->store_port});
  }
  std::sort(assignment.ranks.begin(), assignment.ranks.end(),
            [](const AssignedRank& a, const AssignedRank& b) { return a.key < b.key; });
  return assignment;
}

}  // namespace dp::core
