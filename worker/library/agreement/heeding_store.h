#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "store/store.h"

namespace dp::library {

// The store in which a group is being connected. While a wait finds nothing, it asks at an interval
// whether the group cannot come about, and then ends with that error. A wait that is served soon
// costs no request more. Thread-safe.
class HeedingStore : public Store {
 public:
  // `why_not` is OK as long as the group can come about. It may use `below`, which outlives this.
  HeedingStore(Store& below, std::function<absl::Status()> why_not,
               absl::Duration interval = absl::Seconds(1), const Clock& clock = Clock::Steady());

  // From here on it is no more than `below`.
  void Stop() { stopped_ = true; }

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override;
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override;

 private:
  absl::Duration UntilLook() DP_EXCLUDES(mu_);
  // Asks if it is time to.
  absl::Status Look() DP_EXCLUDES(mu_);

  Store& below_;
  const std::function<absl::Status()> why_not_;
  const absl::Duration interval_;
  const Clock& clock_;
  std::atomic<bool> stopped_ = false;
  Mutex mu_;
  absl::Time looks_at_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::library
