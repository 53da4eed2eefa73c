#include "store/file_store.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "store/awaited_keys.h"
#include "store/batch_codec.h"
#include "store/file_change.h"

namespace dp {

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(const std::string& path, int members,
                                                           const KeyValueLimits& limits,
                                                           const Clock& clock) {
  DP_ASSIGN_OR_RETURN(std::unique_ptr<StoreFile> file, StoreFile::Join(path, members));
  return std::unique_ptr<FileStore>(new FileStore(std::move(file), limits, clock));
}

absl::StatusOr<std::vector<StoreResult>> FileStore::Execute(
    absl::Span<const StoreOperation> operations) {
  if (std::all_of(operations.begin(), operations.end(), IsRead)) {
    return Look(operations, /*missing=*/nullptr);
  }
  MutexLock lock(mu_);
  return Change(operations);
}

absl::StatusOr<std::vector<StoreResult>> FileStore::Await(absl::Span<const StoreOperation> reads,
                                                          absl::Duration timeout) {
  DP_RETURN_IF_ERROR(AwaitedKeys(reads).status());
  const absl::Time deadline = clock_.Now() + timeout;
  FileChange change(path_);
  while (true) {
    std::vector<Unmet> missing;
    DP_ASSIGN_OR_RETURN(std::vector<StoreResult> results, Look(reads, &missing));
    if (missing.empty()) return results;
    const absl::Duration left = deadline - clock_.Now();
    if (left <= absl::ZeroDuration()) return StillMissing(missing, timeout);
    change.Wait(left);
  }
}

absl::StatusOr<std::vector<StoreResult>> FileStore::Look(absl::Span<const StoreOperation> reads,
                                                         std::vector<Unmet>* missing) {
  MutexLock lock(mu_);
  {
    DP_ASSIGN_OR_RETURN(const StoreFile::Lock reading, file_->ForReading());
    DP_RETURN_IF_ERROR(CatchUp());
  }
  if (missing != nullptr) *missing = values_.Missing(reads);
  return values_.Read(reads);
}

absl::StatusOr<std::vector<StoreResult>> FileStore::Change(
    absl::Span<const StoreOperation> operations) {
  DP_ASSIGN_OR_RETURN(const StoreFile::Lock writing, file_->ForWriting());
  DP_RETURN_IF_ERROR(CatchUp());
  values_.Limit(limits_);
  DP_ASSIGN_OR_RETURN(KeyValues::Applied applied, values_.Apply(operations));
  if (!applied.any) return std::move(applied.results);
  const absl::Status appended = file_->Append(EncodeChanges(operations));
  if (appended.ok()) return std::move(applied.results);
  // Nobody else will see the batch, so this process must not see it either.
  values_ = KeyValues();
  file_->Rewind();
  return appended;
}

absl::Status FileStore::CatchUp() {
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> records, file_->ReadNew());
  values_.Limit(KeyValueLimits::None());  // the writer has applied its own
  for (const std::string& record : records) {
    DP_ASSIGN_OR_RETURN(const std::vector<StoreOperation> operations, DecodeChanges(record));
    DP_RETURN_IF_ERROR(values_.Apply(operations).status());
  }
  return absl::OkStatus();
}

}  // namespace dp
