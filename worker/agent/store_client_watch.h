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
#include "worker/agent/store_clients.h"

namespace dp::worker {

// Knows which rank of this host holds which connection to its generation's store, as far as it has
// looked: every two seconds, and not at all while there is no such store. Looks from a thread of
// its own, since that may block (StoreClientSearch). Thread-safe; its end waits for a look under
// way.
class StoreClientWatch {
 public:
  using Find = std::function<std::vector<StoreClient>(const StorePortOf&)>;
  struct Latest {
    uint64_t number = 0;  // grows with every change; 0: there was none yet
    // So many as the coordinator takes (base/limits.h), of each rank and altogether.
    std::vector<StoreClient> clients;
  };

  explicit StoreClientWatch(Find find, absl::Duration every = absl::Seconds(2),
                            const Clock& clock = Clock::Steady());
  ~StoreClientWatch();
  StoreClientWatch(const StoreClientWatch&) = delete;
  StoreClientWatch& operator=(const StoreClientWatch&) = delete;

  // The store, which listens on that port, has ranks here. Idempotent.
  void Follow(JobId job, Generation generation, uint16_t port) DP_EXCLUDES(mu_);
  // None is left. No effect where the store is not followed.
  void Leave(JobId job, Generation generation) DP_EXCLUDES(mu_);

  // The rank with that end of a connection to the store of its generation.
  std::optional<int> RankAt(JobId job, Generation generation, const std::string& end) const
      DP_EXCLUDES(mu_);
  Latest latest() const DP_EXCLUDES(mu_);

 private:
  using Key = std::pair<JobId, Generation>;

  void Loop() DP_EXCLUDES(mu_);
  // Waits until `rest` has passed and there is something to look for; nothing at the end.
  std::optional<StorePortOf> Next(absl::Duration rest) DP_EXCLUDES(mu_);
  void Take(const std::vector<StoreClient>& found) DP_EXCLUDES(mu_);
  std::vector<StoreClient> Bounded(const std::vector<StoreClient>& found) const DP_REQUIRES(mu_);

  const Find find_;
  const absl::Duration every_;
  const Clock& clock_;

  mutable Mutex mu_;
  CondVar changed_;
  StorePortOf stores_ DP_GUARDED_BY(mu_);
  std::map<Key, std::map<std::string, int>> ranks_ DP_GUARDED_BY(mu_);  // as last seen, by end
  Latest latest_ DP_GUARDED_BY(mu_);
  bool ended_ DP_GUARDED_BY(mu_) = false;

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp::worker
