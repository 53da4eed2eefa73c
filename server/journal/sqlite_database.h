#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/journal/sqlite_mark.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dp::server {

struct SqliteOptions {
  const char* vfs = nullptr;  // SQLite's name of the file system; null: the default
  // Bounds what a restart has to read of the WAL: 4 MiB, which are then written again in place.
  int wal_pages = 1000;
  // Bytes of a snapshot that are written at a time, for which an Append may have to wait.
  size_t piece_bytes = size_t{256} << 10;
  // Start although acknowledged commands are missing (dp-coordinator --accept-data-loss).
  bool accept_data_loss = false;
  SqliteMark::Sync mark_sync = SqliteMark::Sync::kBeside;
};

// The SQLite file of a journal, and the meaning of its errors. It has a WAL, syncs every commit,
// and admits no other process. Not thread-safe; owned by the journal.
class SqliteDatabase {
 public:
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

  // Creates the file if it is missing; a new file has version 0. Leaves the WAL as it is until
  // EmptyWal, even when the file is closed.
  // Errors: DataLoss the file is damaged, or no database of this application; FailedPrecondition
  // another process has it open; Internal the storage failed.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& file,
                                                              int64_t application,
                                                              const SqliteOptions& options);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Each returns Error() if SQLite reports an error.
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<Statement> Compile(const char* sql);
  absl::StatusOr<int64_t> Number(const char* sql);
  // The value of a `?`. Bytes are not copied: they must stay until the statement has run.
  using Value = std::variant<int64_t, absl::string_view>;
  absl::Status Bind(const Statement& statement, std::initializer_list<Value> values);
  // Binds, and runs a statement without result rows to its end. The statement may be run again.
  absl::Status Run(const Statement& statement, std::initializer_list<Value> values);
  int64_t rows_changed() const;
  // Moves the WAL into the file and empties the WAL. Call before the first write: what a crash has
  // left behind the last commit must not be there after the next one (CheckWal).
  absl::Status EmptyWal();
  // Bytes in the WAL that are not in the file yet.
  uint64_t wal_bytes() const { return static_cast<uint64_t>(wal_pages_) * page_bytes_; }
  // For a failure beside the database: nothing more is written, not even when the database is
  // closed.
  void GiveUp();
  // Moves commits from the WAL into the file once that is worth it, syncing both.
  absl::Status CheckpointWhenDue();

  // The error of the last call. DataLoss the file is damaged; ResourceExhausted the disk is full;
  // FailedPrecondition another process has the file; Internal otherwise. After an error nothing
  // more is written, not even when the file is closed.
  absl::Status Error();
  absl::Status Damaged(const std::string& what) const;
  const std::string& file() const { return file_; }
  bool found_wal() const { return found_wal_; }  // Open found a WAL with content
  const SqliteOptions& options() const { return options_; }

 private:
  struct CloseDatabase {
    void operator()(sqlite3* database) const;
  };

  SqliteDatabase(std::string file, const SqliteOptions& options)
      : file_(std::move(file)), options_(options) {}

  absl::Status FindWal();
  absl::Status Prepare(int64_t application);
  absl::Status UseWal();
  absl::Status Checkpoint(int mode);
  int SystemError() const;

  const std::string file_;
  const SqliteOptions options_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
  int wal_pages_ = 0;  // since the last checkpoint
  uint64_t page_bytes_ = 0;
  bool found_wal_ = false;
};

}  // namespace dp::server
