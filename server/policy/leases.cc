#include "server/policy/leases.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/timeouts.h"
#include "server/core/coordinator.h"
#include "server/policy/liveness.h"

namespace dp::core {

namespace {

std::set<WorkerId> Listed(const Coordinator& coordinator) {
  std::set<WorkerId> listed;
  for (const auto& [id, worker] : coordinator.state().workers.by_id()) {
    listed.insert(listed.end(), id);
  }
  return listed;
}

}  // namespace

void OfferLeases(const Coordinator& coordinator, Liveness& liveness, absl::Time now) {
  liveness.KeepOnly(Listed(coordinator));
  std::map<WorkerId, absl::Duration> shortest;
  for (const Job* job : coordinator.unfinished_jobs()) {
    const absl::Duration asked = LeaseWithin(job->spec.detect_within, liveness.lease());
    if (asked >= liveness.lease() || !job->live()) continue;
    for (const Rank& rank : job->ranks) {
      if (!rank.live()) continue;
      const auto [it, is_new] = shortest.emplace(rank.worker_id, asked);
      if (!is_new) it->second = std::min(it->second, asked);
    }
  }
  liveness.Offer(shortest, now);
}

}  // namespace dp::core
