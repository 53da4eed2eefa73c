#include "worker/library/agreement/heeding_store.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace dp::library {

HeedingStore::HeedingStore(Store& below, std::function<absl::Status()> why_not,
                           absl::Duration interval, const Clock& clock)
    : below_(below),
      why_not_(std::move(why_not)),
      interval_(interval),
      clock_(clock),
      looks_at_(clock.Now() + interval) {}

absl::StatusOr<std::vector<StoreResult>> HeedingStore::Execute(
    absl::Span<const StoreOperation> operations) {
  return below_.Execute(operations);
}

absl::StatusOr<std::vector<StoreResult>> HeedingStore::Await(absl::Span<const StoreOperation> reads,
                                                             absl::Duration timeout) {
  const absl::Time end = clock_.Now() + timeout;
  for (;;) {
    if (stopped_) return below_.Await(reads, end - clock_.Now());
    const absl::Duration left = std::max(end - clock_.Now(), absl::ZeroDuration());
    auto results = below_.Await(reads, std::min(left, UntilLook()));
    if (!absl::IsDeadlineExceeded(results.status())) return results;
    DP_RETURN_IF_ERROR(Look());
    if (clock_.Now() >= end) return results;
  }
}

absl::Duration HeedingStore::UntilLook() {
  MutexLock lock(mu_);
  return std::max(looks_at_ - clock_.Now(), absl::ZeroDuration());
}

absl::Status HeedingStore::Look() {
  {
    MutexLock lock(mu_);
    if (stopped_ || clock_.Now() < looks_at_) return absl::OkStatus();
    looks_at_ = clock_.Now() + interval_;
  }
  return why_not_();
}

}  // namespace dp::library
