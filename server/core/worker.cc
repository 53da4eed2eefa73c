#include "server/core/worker.h"

#include <set>

namespace dp::core {

std::vector<int> Worker::free_slots() const {
  std::vector<int> free;
  if (!open()) return free;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const bool healthy = !unhealthy.contains(static_cast<int>(slot));
    if (healthy && !slots[slot].has_value()) free.push_back(static_cast<int>(slot));
  }
  return free;
}

std::vector<JobId> Worker::jobs() const {
  std::set<JobId> jobs;
  for (const std::optional<RankKey>& holder : slots) {
    if (holder.has_value()) jobs.insert(holder->job);
  }
  return {jobs.begin(), jobs.end()};
}

}  // namespace dp::core
