#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "base/store/async_store.h"
#include "base/store/key_values.h"

namespace dp {

// A store in the memory of one process, for one who must not block. Answers on the thread whose
// call brought the answer about; several reads with at most 32 MiB, beyond which the answer is
// ResourceExhausted. Thread-safe.
class AsyncHashStore : public AsyncStore {
 public:
  explicit AsyncHashStore(const KeyValueLimits& limits = {}) : values_(limits) {}

  void Execute(std::vector<StoreOperation> operations, Done done) override DP_EXCLUDES(mu_);
  using AsyncStore::Await;
  Ticket Await(std::vector<StoreOperation> reads, Done done, const std::string& peer) override
      DP_EXCLUDES(mu_);
  void Cancel(Ticket ticket) override DP_EXCLUDES(mu_);

  // How many wait.
  size_t waiting() const DP_EXCLUDES(mu_);

 private:
  struct Wait {
    std::vector<StoreOperation> reads;
    std::vector<StoreResult> results;  // of those that are met
    std::vector<bool> met;
    size_t unmet = 0;
    Done done;
  };
  // One read of one wait.
  struct Place {
    uint64_t wait = 0;
    size_t read = 0;
  };
  using Places = std::vector<Place>;
  // Given once the lock is free.
  using Answers = std::vector<std::pair<Done, Results>>;

  // Looks whether a read has found something, and notes it.
  bool Meet(Wait& wait, size_t read) DP_REQUIRES(mu_);
  void WakeAll(const KeyValues::Applied& applied, Answers* answers) DP_REQUIRES(mu_);
  // `places` look again. `elements` have entered the queue of that name, each for one of them.
  Places Wake(Places places, bool present, size_t elements, Answers* answers) DP_REQUIRES(mu_);
  // Each read that is not met comes into the list of each name that its answer depends on.
  void Enlist(uint64_t id, const Wait& wait) DP_REQUIRES(mu_);
  // Null when it has been answered.
  std::unique_ptr<Wait> Remove(uint64_t id) DP_REQUIRES(mu_);

  mutable Mutex mu_;
  KeyValues values_ DP_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, std::unique_ptr<Wait>> waits_ DP_GUARDED_BY(mu_);
  // Who waits for a name, in the order in which they came.
  absl::flat_hash_map<std::string, Places> by_name_ DP_GUARDED_BY(mu_);
  uint64_t last_ticket_ DP_GUARDED_BY(mu_) = 0;
};

}  // namespace dp
