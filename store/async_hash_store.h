#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "store/async_store.h"
#include "store/key_values.h"

namespace dp {

// A store in the memory of one process, for callers that must not block. Callbacks run on the
// thread whose call produced the answer. An answer to several reads above 32 MiB is
// ResourceExhausted. Thread-safe.
class AsyncHashStore : public AsyncStore {
 public:
  explicit AsyncHashStore(const KeyValueLimits& limits = {}) : values_(limits) {}

  void Execute(std::vector<StoreOperation> operations, Done done) override DP_EXCLUDES(mu_);
  using AsyncStore::Await;
  Ticket Await(std::vector<StoreOperation> reads, Done done, const std::string& peer) override
      DP_EXCLUDES(mu_);
  void Cancel(Ticket ticket) override DP_EXCLUDES(mu_);

  // The number of open waits.
  size_t waiting() const DP_EXCLUDES(mu_);

 private:
  struct Wait {
    std::vector<StoreOperation> reads;
    std::vector<StoreResult> results;  // of the reads that are met
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
  // Called once the lock is free.
  using Answers = std::vector<std::pair<Done, Results>>;

  // Tries a read and keeps its result if it finds something. Returns whether it does.
  bool Meet(Wait& wait, size_t read) DP_REQUIRES(mu_);
  void WakeAll(const KeyValues::Applied& applied, Answers* answers) DP_REQUIRES(mu_);
  // Tries the reads at `places` again; returns those that stay unmet. `elements` have entered the
  // queue of that name, and each can meet one read.
  Places Wake(Places places, bool present, size_t elements, Answers* answers) DP_REQUIRES(mu_);
  // Adds each unmet read to the list of each name that its answer depends on.
  void Enlist(uint64_t id, const Wait& wait) DP_REQUIRES(mu_);
  // Null if the wait was answered.
  std::unique_ptr<Wait> Remove(uint64_t id) DP_REQUIRES(mu_);

  mutable Mutex mu_;
  KeyValues values_ DP_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, std::unique_ptr<Wait>> waits_ DP_GUARDED_BY(mu_);
  // The waiting reads of each name, in order of arrival.
  absl::flat_hash_map<std::string, Places> by_name_ DP_GUARDED_BY(mu_);
  uint64_t last_ticket_ DP_GUARDED_BY(mu_) = 0;
};

}  // namespace dp
