#include "store/file_store.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "store/awaited_keys.h"
#include "store/batch_codec.h"

namespace dp {
namespace {

// How late a change by another machine may be noticed.
constexpr absl::Duration kMoment = absl::Milliseconds(50);

// Waits until a file may have changed. The kernel reports writes of this machine at once. It does
// not report writes of other machines to a shared network file system, so Wait also returns now and
// then. Not thread-safe; one per waiting call.
class FileChange {
 public:
  explicit FileChange(const std::string& path) : inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    if (inotify_.valid() && inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY) < 0)
      inotify_.Close();
  }

  // Blocks until a change since the construction or the last Wait, but no longer than `timeout` or
  // kMoment.
  void Wait(absl::Duration timeout) {
    const absl::Duration bounded =
        std::clamp(timeout, absl::ZeroDuration(), absl::Duration(kMoment));
    pollfd event{inotify_.get(), POLLIN, 0};
    const auto milliseconds = absl::ToInt64Milliseconds(absl::Ceil(bounded, absl::Milliseconds(1)));
    if (poll(&event, 1, static_cast<int>(milliseconds)) <= 0) return;
    char told[4096];
    while (read(inotify_.get(), told, sizeof told) > 0) continue;
  }

 private:
  FileDescriptor inotify_;  // not valid if the system has no more of them
};

}  // namespace

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
