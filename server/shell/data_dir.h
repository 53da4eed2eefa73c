#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/id.h"

namespace dp::server {

// The coordinator's directory, held by one process at a time: a lock on its file `lock`, which the
// kernel drops when the process ends, however it ends. Movable; keep it as long as the files are
// used. Not thread-safe; owned by main.
class DataDir {
 public:
  // Creates the directory where it is missing.
  // Errors: FailedPrecondition another process holds it, or it has lost its journal: there is none,
  // or an empty one, beside a write-ahead log, a mark or logs of jobs; nothing is changed then.
  // With `accept_data_loss` that is no error. PermissionDenied it cannot be written.
  static absl::StatusOr<DataDir> Open(const std::filesystem::path& path,
                                      bool accept_data_loss = false);

  // Makes the names of the files in it durable, and its own. Errors: Internal.
  absl::Status Sync() const;

  // Moves the logs of these jobs, which the journal does not know, to `lost-logs`, and logs it. The
  // move is durable then. Logs that are there already stay. Errors: Internal names the folder.
  absl::Status SetLogsAside(const std::vector<JobId>& jobs) const;

  std::string journal_file() const { return (path_ / kJournal).string(); }
  std::string ballast_file() const { return (path_ / "ballast").string(); }
  // The size of the file system, and the bytes that may still be written. The largest number where
  // the system does not say.
  uint64_t disk_bytes() const;
  uint64_t disk_available() const;
  std::filesystem::path logs() const { return path_ / "logs"; }

 private:
  static constexpr char kJournal[] = "journal.sqlite";

  DataDir(std::filesystem::path path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  absl::Status CheckJournalIsThere() const;

  std::filesystem::path path_;
  FileDescriptor lock_;
};

}  // namespace dp::server
