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
  // Errors: FailedPrecondition another process holds it; PermissionDenied it cannot be written.
  static absl::StatusOr<DataDir> Open(const std::filesystem::path& path);

  // Makes the names of the files in it durable, and its own. Errors: Internal.
  absl::Status Sync() const;

  std::string journal_file() const { return (path_ / "journal.sqlite").string(); }
  std::filesystem::path logs() const { return path_ / "logs"; }

 private:
  DataDir(std::filesystem::path path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  FileDescriptor lock_;
};

}  // namespace dp::server
