#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/shell/sqlite_mark.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dp::server {

struct SqliteOptions {
  const char* vfs = nullptr;  // the file system's name to SQLite; the default one when null
  // What a restart has to read of the WAL at most: 4 MiB, which are then written again in place.
  int wal_pages = 1000;
  // Of a snapshot at a time: what an Append may have to wait for.
  size_t piece_bytes = size_t{256} << 10;
  // Start although acknowledged commands are missing (dp-coordinator --accept-data-loss).
  bool accept_data_loss = false;
  SqliteMark::Sync mark_sync = SqliteMark::Sync::kBeside;
};

// The SQLite file of a journal, and what its errors mean: WAL, every commit synced, and no other
// process at it. Not thread-safe; owned by the journal.
class SqliteDatabase {
 public:
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

  // Creates the file where it is missing; a new one has version 0. Leaves the WAL as it is, also
  // when the file is closed, until EmptyWal. Errors: DataLoss it is no database of this
  // application, or damaged; FailedPrecondition another process has it open; Internal the storage.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& file,
                                                              int64_t application,
                                                              const SqliteOptions& options);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Each answers Error() when SQLite refuses.
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<Statement> Compile(const char* sql);
  absl::StatusOr<int64_t> Number(const char* sql);
  // What stands for a `?`. Bytes are not copied: they stay until the statement has run.
  using Value = std::variant<int64_t, absl::string_view>;
  absl::Status Bind(const Statement& statement, std::initializer_list<Value> values);
  // Binds, and runs a statement that answers no rows to its end; it may be run again.
  absl::Status Run(const Statement& statement, std::initializer_list<Value> values);
  int64_t rows_changed() const;
  // Moves the WAL into the file and empties the WAL. Before the first write: what a crash has left
  // behind the last commit must not be there after the next one (CheckWal).
  absl::Status EmptyWal();
  // After a failure beside the database: nothing more is written, not even when it is closed.
  void GiveUp();
  // Moves what was committed from the WAL into the file once that is worth it, syncing both.
  absl::Status CheckpointWhenDue();

  // Of the last call. DataLoss where the file is damaged; ResourceExhausted where the disk is full;
  // FailedPrecondition where another process has it; Internal otherwise. After an error of the
  // storage nothing more is written, not even when the file is closed.
  absl::Status Error();
  absl::Status Damaged(const std::string& what) const;
  const std::string& file() const { return file_; }
  bool found_wal() const { return found_wal_; }  // at Open, and there was something in it
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
  int wal_pages_ = 0;
  bool found_wal_ = false;
};

}  // namespace dp::server
