#include "worker/agent/stores/store_client_watch.h"

#include <pthread.h>

#include <algorithm>

#include "base/limits.h"

namespace dp::worker {
namespace {

// The watch rests this many times longer than a look takes. A look at very many sockets thus uses
// at most 2 % of a processor.
constexpr int kRestsPerLook = 50;

}  // namespace

StoreClientWatch::StoreClientWatch(Find find, absl::Duration every, const Clock& clock)
    : find_(std::move(find)), every_(every), clock_(clock) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "store_clients");
}

StoreClientWatch::~StoreClientWatch() {
  MutexLock lock(mu_);
  ended_ = true;
  changed_.NotifyAll();
}

void StoreClientWatch::Follow(JobId job, Generation generation, uint16_t port) {
  MutexLock lock(mu_);
  stores_[{job, generation}] = port;
  changed_.NotifyAll();
}

void StoreClientWatch::Leave(JobId job, Generation generation) {
  MutexLock lock(mu_);
  stores_.erase({job, generation});
}

std::optional<int> StoreClientWatch::RankAt(JobId job, Generation generation,
                                            const std::string& end) const {
  MutexLock lock(mu_);
  const auto ranks = ranks_.find({job, generation});
  if (ranks == ranks_.end()) return std::nullopt;
  const auto rank = ranks->second.find(end);
  return rank == ranks->second.end() ? std::nullopt : std::optional(rank->second);
}

StoreClientWatch::Latest StoreClientWatch::latest() const {
  MutexLock lock(mu_);
  return latest_;
}

void StoreClientWatch::Loop() {
  absl::Duration rest;
  while (const std::optional<StorePortOf> stores = Next(rest)) {
    const absl::Time began = clock_.Now();
    Take(find_(*stores));
    rest = std::max(every_, (clock_.Now() - began) * kRestsPerLook);
  }
}

std::optional<StorePortOf> StoreClientWatch::Next(absl::Duration rest) {
  MutexLock lock(mu_);
  (void)changed_.WaitFor(mu_, rest, [this]() DP_REQUIRES(mu_) { return ended_; });
  // After the last store was left, one more look clears ranks_.
  while (!ended_ && stores_.empty() && ranks_.empty()) changed_.Wait(mu_);
  if (ended_) return std::nullopt;
  return stores_;
}

void StoreClientWatch::Take(const std::vector<StoreClient>& found) {
  MutexLock lock(mu_);
  ranks_.clear();
  for (const StoreClient& each : found) {
    const Key key{each.job, each.generation};
    if (stores_.contains(key)) ranks_[key][each.end] = each.rank;
  }
  std::vector<StoreClient> clients = Bounded(found);
  if (clients == latest_.clients) return;
  latest_.clients = std::move(clients);
  ++latest_.number;
}

// `found` is sorted, so the connections of a rank are adjacent.
std::vector<StoreClient> StoreClientWatch::Bounded(const std::vector<StoreClient>& found) const {
  std::vector<StoreClient> bounded;
  size_t of_rank = 0;
  for (const StoreClient& each : found) {
    if (!stores_.contains({each.job, each.generation})) continue;
    const bool same = !bounded.empty() && bounded.back().job == each.job &&
                      bounded.back().generation == each.generation &&
                      bounded.back().rank == each.rank;
    of_rank = same ? of_rank + 1 : 1;
    if (of_rank > kStoreClientsOfRankMax) continue;
    if (bounded.size() == kStoreClientsMax) break;
    bounded.push_back(each);
  }
  return bounded;
}

}  // namespace dp::worker
