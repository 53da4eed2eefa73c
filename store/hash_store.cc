#include "store/hash_store.h"

#include <utility>

#include "base/status.h"
#include "store/awaited_keys.h"
#include "store/unmet.h"

namespace dp {

absl::StatusOr<std::vector<StoreResult>> HashStore::Execute(
    absl::Span<const StoreOperation> operations) {
  MutexLock lock(mu_);
  DP_ASSIGN_OR_RETURN(KeyValues::Applied applied, values_.Apply(operations));
  if (applied.any) changed_.NotifyAll();
  return std::move(applied.results);
}

absl::StatusOr<std::vector<StoreResult>> HashStore::Await(absl::Span<const StoreOperation> reads,
                                                          absl::Duration timeout) {
  DP_RETURN_IF_ERROR(AwaitedKeys(reads).status());
  const absl::Time deadline = clock_.Now() + timeout;
  MutexLock lock(mu_);
  while (true) {
    const std::vector<Unmet> missing = values_.Missing(reads);
    if (missing.empty()) return values_.Read(reads);
    const absl::Duration left = deadline - clock_.Now();
    if (left <= absl::ZeroDuration()) return StillMissing(missing, timeout);
    changed_.WaitFor(mu_, left);
  }
}

}  // namespace dp
