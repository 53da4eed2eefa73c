#include "server/core/assignment.h"

#include <algorithm>

#include "base/check.h"
#include "server/core/job_registry.h"
#include "server/core/worker.h"

namespace dp::core {

namespace {

// Placement keeps the ranks of one worker adjacent.
std::vector<HostRanks> HostsOf(const Job& job) {
  std::vector<HostRanks> hosts;
  WorkerId last;
  for (const Rank& rank : job.ranks) {
    if (hosts.empty() || rank.worker_id != last) hosts.push_back({rank.address, {}, {}});
    last = rank.worker_id;
    hosts.back().slots.push_back(rank.slot);
    hosts.back().ports.push_back(rank.port);
  }
  return hosts;
}

}  // namespace

Assignment AssignmentOf(const Worker& worker, const JobRegistry& jobs) {
  Assignment assignment;
  for (const std::optional<RankKey>& holder : worker.slots) {
    if (!holder.has_value()) continue;
    const Job* job = jobs.Find(holder->job);
    DP_CHECK(job != nullptr);
    const Rank& rank = job->ranks.at(holder->rank);
    assignment.ranks.push_back({*holder, job->world_size(), rank.local_rank, rank.slot,
                                job->state == JobState::kStopping, job->spec.payload,
                                job->store_port});
    assignment.ranks.back().hand_over = job->handover.has_value();
    assignment.ranks.back().submitted_at = job->submitted_at;
    assignment.ranks.back().on_gpu = job->on_gpus;
    assignment.ranks.back().owner = job->owner;
    if (job->spec.joins_by_running) assignment.ranks.back().hosts = HostsOf(*job);
  }
  std::sort(assignment.ranks.begin(), assignment.ranks.end(),
            [](const AssignedRank& a, const AssignedRank& b) { return a.key < b.key; });
  return assignment;
}

}  // namespace dp::core
