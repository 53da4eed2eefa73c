#include "server/shell/barrier_arrivals.h"

namespace dp::server {

void BarrierArrivals::Saw(const Barrier& barrier, int rank) {
  if (rank < 0) return;
  ranks_[barrier].insert(rank);
  if (ranks_.size() > kBarriersMax) ranks_.erase(ranks_.begin());
}

std::set<int> BarrierArrivals::Missing(const Barrier& barrier, int64_t arrived, int64_t count,
                                       const core::Coordinator& coordinator) const {
  const core::Job* job = coordinator.job(barrier.job);
  const auto seen = ranks_.find(barrier);
  if (job == nullptr || job->world_size() != count || seen == ranks_.end()) return {};
  if (static_cast<int64_t>(seen->second.size()) != arrived) return {};
  std::set<int> missing;
  for (int rank = 0; rank < count; ++rank) {
    if (!seen->second.contains(rank)) missing.insert(rank);
  }
  return missing;
}

}  // namespace dp::server
