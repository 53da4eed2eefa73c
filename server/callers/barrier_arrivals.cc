#include "server/callers/barrier_arrivals.h"

#include <variant>

namespace dp::server {

void BarrierArrivals::Saw(const BlockedCall& call, const KeyValues& store) {
  if (call.rank < 0 && call.peer.empty()) return;
  for (const StoreOperation& read : call.reads) {
    const auto* reached = std::get_if<StoreReached>(&read);
    if (reached == nullptr || store.Found(read)) continue;
    Add({call.job, call.generation, reached->key}, call);
    while (seen_.size() > kBarriersMax || size_ > kAllArrivalsMax) Forget(seen_.begin());
  }
}

void BarrierArrivals::Add(const Barrier& barrier, const BlockedCall& call) {
  const auto it = seen_.try_emplace(barrier).first;
  Seen& seen = it->second;
  const bool first =
      call.rank >= 0 ? seen.ranks.insert(call.rank).second : seen.peers.insert(call.peer).second;
  if (first) ++size_;
  if (seen.size() > kArrivalsMax) Forget(it);
}

void BarrierArrivals::Forget(std::map<Barrier, Seen>::iterator it) {
  size_ -= it->second.size();
  seen_.erase(it);
}

void BarrierArrivals::Answered(const BlockedCall& call, const KeyValues& store) {
  for (const StoreOperation& read : call.reads) {
    const auto* reached = std::get_if<StoreReached>(&read);
    if (reached == nullptr || !store.Found(read)) continue;
    const auto it = seen_.find({call.job, call.generation, reached->key});
    if (it != seen_.end()) Forget(it);
  }
}

std::set<int> BarrierArrivals::Missing(const core::Job& job, const std::string& key,
                                       int64_t arrived, int64_t count,
                                       const CallerNames& names) const {
  const auto found = seen_.find({job.id, job.generation, key});
  if (job.world_size() != count || found == seen_.end()) return {};
  std::set<int> seen = found->second.ranks;
  for (const std::string& peer : found->second.peers) {
    if (const auto rank = names.rank_at(peer); rank.has_value()) seen.insert(*rank);
  }
  if (static_cast<int64_t>(seen.size()) != arrived) return {};
  std::set<int> missing;
  for (int rank = 0; rank < count; ++rank) {
    if (!seen.contains(rank)) missing.insert(rank);
  }
  return missing;
}

}  // namespace dp::server
