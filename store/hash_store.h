#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "store/key_values.h"
#include "store/store.h"

namespace dp {

// A store in the memory of one process, for ranks that are its threads. Thread-safe. `clock` must
// outlive it.
class HashStore : public Store {
 public:
  explicit HashStore(const KeyValueLimits& limits = {}, const Clock& clock = Clock::Steady())
      : clock_(clock), values_(limits) {}

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override DP_EXCLUDES(mu_);
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override DP_EXCLUDES(mu_);

 private:
  const Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  KeyValues values_ DP_GUARDED_BY(mu_);
};

}  // namespace dp
