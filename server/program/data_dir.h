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

// The risks that the user has accepted on the command line.
struct AcceptedRisks {
  bool data_loss = false;
  bool other_users = false;
};

// The coordinator's directory, held by one process at a time. The process locks the file `lock`;
// the kernel drops the lock however the process exits. Movable; keep it as long as the files are
// used. Not thread-safe; owned by main.
class DataDir {
 public:
  // Creates the directory if it is missing. Without `data_loss`, rejects a directory whose journal
  // is lost: missing or empty beside a write-ahead log, a mark or logs of jobs. Without
  // `other_users`, rejects a directory that others can change or replace, by CheckSafePath. Nothing
  // is changed then.
  // Errors: FailedPrecondition another process holds the directory, or the journal is lost;
  // PermissionDenied the directory cannot be written, or others can write it.
  static absl::StatusOr<DataDir> Open(const std::filesystem::path& path,
                                      AcceptedRisks accepted = {});

  // Makes the directory's name and the names of its files durable. Errors: Internal.
  absl::Status Sync() const;

  // Moves the logs of these jobs, which the journal does not know, to `lost-logs`, and logs each
  // move. On return the moves are durable. Logs already in `lost-logs` stay. Errors: Internal names
  // the folder.
  absl::Status SetLogsAside(const std::vector<JobId>& jobs) const;

  std::string journal_file() const { return (path_ / kJournal).string(); }
  std::string ballast_file() const { return (path_ / "ballast").string(); }
  // The size of the file system, and the bytes that may still be written. The largest number if the
  // system does not report them.
  uint64_t disk_bytes() const;
  uint64_t disk_available() const;
  std::filesystem::path logs() const { return path_ / "logs"; }
  std::filesystem::path parameters() const { return path_ / "parameters"; }
  std::filesystem::path identity() const { return path_ / "identity"; }

 private:
  static constexpr char kJournal[] = "journal.sqlite";

  DataDir(std::filesystem::path path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  absl::Status CheckJournalIsThere() const;

  std::filesystem::path path_;
  FileDescriptor lock_;
};

}  // namespace dp::server
