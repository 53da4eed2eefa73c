#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace dp::server {

// The coordinator's directory, held by one process at a time: a lock on its file `lock`, which the
// kernel drops when the process ends, however it ends. Movable; keep it as long as the files are
// used.
class DataDir {
 public:
  // Creates the directory where it is missing.
  // Errors: FailedPrecondition another process holds it; PermissionDenied it cannot be written.
  static absl::StatusOr<DataDir> Open(const std::filesystem::path& path);

  DataDir(DataDir&& other) noexcept;
  DataDir& operator=(DataDir&&) = delete;
  ~DataDir();

  std::string journal_file() const { return (path_ / "journal.sqlite").string(); }
  std::filesystem::path logs() const { return path_ / "logs"; }

 private:
  DataDir(std::filesystem::path path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::filesystem::path path_;
  int lock_fd_;
};

}  // namespace dp::server
