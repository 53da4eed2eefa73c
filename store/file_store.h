#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "store/key_values.h"
#include "store/store.h"
#include "store/store_file.h"

namespace dp {

// A store of processes that share a file system with fcntl locks: `file://` of init_process_group.
// The file is the list of all changes; each process reads new ones and applies them to its own
// copy. The first of `members` creates the file and the last removes it. A file that an earlier run
// left behind is an error, never a wait for ranks that are gone. Thread-safe.
class FileStore : public Store {
 public:
  // Errors: as StoreFile::Join.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(const std::string& path, int members,
                                                         const KeyValueLimits& limits = {},
                                                         const Clock& clock = Clock::Steady());

  // Errors beyond Store's: Unavailable the file system, with its reason; DataLoss a damaged file.
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override DP_EXCLUDES(mu_);
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override DP_EXCLUDES(mu_);

 private:
  FileStore(std::unique_ptr<StoreFile> file, const KeyValueLimits& limits, const Clock& clock)
      : limits_(limits), clock_(clock), path_(file->path()), file_(std::move(file)) {}

  // Applies the changes that others have appended. Requires a lock of the file.
  absl::Status CatchUp() DP_REQUIRES(mu_);
  absl::StatusOr<std::vector<StoreResult>> Change(absl::Span<const StoreOperation> operations)
      DP_REQUIRES(mu_);
  // The results. Also fills in `missing`, unless it is null.
  absl::StatusOr<std::vector<StoreResult>> Look(absl::Span<const StoreOperation> reads,
                                                std::vector<Unmet>* missing) DP_EXCLUDES(mu_);

  const KeyValueLimits limits_;
  const Clock& clock_;
  const std::string path_;

  Mutex mu_;  // held during reads and writes of the file, to order them
  std::unique_ptr<StoreFile> file_ DP_GUARDED_BY(mu_);
  KeyValues values_ DP_GUARDED_BY(mu_);
};

}  // namespace dp
