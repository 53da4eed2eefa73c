#include "base/store/hash_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace dp {

absl::StatusOr<std::vector<StoreResult>> HashStore::Execute(
    absl::Span<const StoreOperation> operations) {
  MutexLock lock(mu_);
  DP_ASSIGN_OR_RETURN(KeyValues::Applied applied, values_.Apply(operations));
  if (!applied.changed.empty()) changed_.NotifyAll();
  return std::move(applied.results);
}

absl::StatusOr<std::vector<std::string>> HashStore::Await(absl::Span<const std::string> keys,
                                                          absl::Duration timeout) {
  const absl::Time deadline = clock_.Now() + timeout;
  MutexLock lock(mu_);
  for (;;) {
    const std::vector<std::string> missing = values_.Missing(keys);
    if (missing.empty()) break;
    const absl::Duration left = deadline - clock_.Now();
    if (left <= absl::ZeroDuration())
      return absl::DeadlineExceededError(absl::StrCat("store keys still missing after ",
                                                      absl::FormatDuration(timeout), ": ",
                                                      absl::StrJoin(missing, ", ")));
    changed_.WaitFor(mu_, left);
  }
  std::vector<std::string> values;
  for (const std::string& key : keys) values.push_back(*values_.Find(key));
  return values;
}

}  // namespace dp
