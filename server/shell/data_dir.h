#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace dp::server {

// The coordinator's directory, held by one process at a time: a lock on its file `lock`, which the
// kernel drops when the process ends, however it ends. Movable; keep it as long as the files are
// used. Not thread-safe; owned by main.
class DataDir {
 public:
  // Creates the directory where it is missing.
  // Errors: FailedPrecondition another process holds it, or it has lost its journal: there is none,
  // or an empty one, beside a write-ahead log or logs of jobs; nothing is changed then.
  // PermissionDenied it cannot be written.
  static absl::StatusOr<DataDir> Open(const std::filesystem::path& path);

  // Makes the names of the files in it durable, and its own. Errors: Internal.
  absl::Status Sync() const;

  std::string journal_file() const { return (path_ / kJournal).string(); }
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
