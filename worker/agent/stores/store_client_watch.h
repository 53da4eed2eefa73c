#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mutex.h"
#include "worker/agent/stores/store_clients.h"

namespace dp::worker {

// Tracks which rank of this host holds which connection to its generation's store. Looks every two
// seconds, and not at all while there is no store. Has its own thread, because a look may block
// (StoreClientSearch). Thread-safe; the destructor waits for a look in flight.
class StoreClientWatch {
 public:
  using Find = std::function<std::vector<StoreClient>(const StorePortOf&)>;
  struct Latest {
    uint64_t number = 0;  // grows with every change; 0: none yet
    // At most as many as the coordinator accepts, per rank and in total (base/limits.h).
    std::vector<StoreClient> clients;
  };

  explicit StoreClientWatch(Find find, absl::Duration every = absl::Seconds(2),
                            const Clock& clock = Clock::Steady());
  ~StoreClientWatch();
  StoreClientWatch(const StoreClientWatch&) = delete;
  StoreClientWatch& operator=(const StoreClientWatch&) = delete;

  // Ranks of this host use the store, which listens on `port`. Idempotent.
  void Follow(JobId job, Generation generation, uint16_t port) DP_EXCLUDES(mu_);
  // No such rank is left. No-op if the store is not followed.
  void Leave(JobId job, Generation generation) DP_EXCLUDES(mu_);

  // The rank that holds this end of a connection to its generation's store; absent if unknown.
  std::optional<int> RankAt(JobId job, Generation generation, const std::string& end) const
      DP_EXCLUDES(mu_);
  Latest latest() const DP_EXCLUDES(mu_);

 private:
  using Key = std::pair<JobId, Generation>;

  void Loop() DP_EXCLUDES(mu_);
  // Waits until `rest` has passed and there is something to look for. Nothing at the end.
  std::optional<StorePortOf> Next(absl::Duration rest) DP_EXCLUDES(mu_);
  void Take(const std::vector<StoreClient>& found) DP_EXCLUDES(mu_);
  std::vector<StoreClient> Bounded(const std::vector<StoreClient>& found) const DP_REQUIRES(mu_);

  const Find find_;
  const absl::Duration every_;
  const Clock& clock_;

  mutable Mutex mu_;
  CondVar changed_;
  StorePortOf stores_ DP_GUARDED_BY(mu_);
  std::map<Key, std::map<std::string, int>> ranks_ DP_GUARDED_BY(mu_);  // by end, as last seen
  Latest latest_ DP_GUARDED_BY(mu_);
  bool ended_ DP_GUARDED_BY(mu_) = false;

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp::worker
