#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/driver/journal.h"
#include "server/journal/sqlite_database.h"
#include "server/journal/sqlite_mark.h"
#include "server/journal/sqlite_snapshot.h"

namespace dp::server {

// The journal in an SQLite file: a table of (sequence, record, checksum), one transaction per
// batch, synced before it returns (docs/journal.md). SQLite rolls back a batch that a crash tore. A
// damaged record is rejected, because acknowledged work would be lost silently. A journal that ends
// before its mark (SqliteMark) is rejected for the same reason. The caller keeps other processes
// away (DataDir).
//
// The first Append converts a file of an earlier format. Until then, and if its replay is rejected,
// the release that wrote the file can go on with it.
class SqliteJournal final : public Journal {
 public:
  // Raised when an older release could not read what this one writes. Format 2 added snapshots.
  static constexpr int kFormatVersion = 4;

  // Creates the file if it is missing.
  // Errors: DataLoss the file is no journal, or damaged; FailedPrecondition a later format, or
  // another process has it open; Internal the storage failed.
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(const std::string& file,
                                                             const SqliteOptions& options = {});

  // Errors also: DataLoss acknowledged commands are missing. The files are then unchanged.
  absl::Status Replay(Restore restore, Apply apply) override;
  absl::Status Append(absl::Span<const core::Command> commands) override;
  absl::Status Maintain() override;
  void TakeSnapshot(const core::State& state) override;
  bool compacting() const override { return snapshot_.busy(); }
  JournalTail tail() const override { return tail_; }
  uint64_t spare_bytes() override;
  // The write-ahead log's pages, which a checkpoint copies into the file, and the rest of a
  // snapshot.
  uint64_t backlog_bytes() const override {
    return database_->wal_bytes() + snapshot_.unwritten_bytes();
  }

 private:
  explicit SqliteJournal(std::unique_ptr<SqliteDatabase> database)
      : database_(std::move(database)), snapshot_(*database_) {}

  absl::Status Prepare();
  absl::Status CheckFormat();
  absl::Status ReplayAll(Restore restore, Apply apply);
  // Compares what was replayed with the mark. Errors: DataLoss says what is missing.
  absl::Status CheckMark() const;
  // Makes the journal ready for writes.
  absl::Status TakeOver();
  // After an error of the mark, nothing more is written to the journal either.
  absl::Status Marked(absl::Status status);
  // The next two run in the open transaction.
  absl::Status ClaimFormat();
  absl::Status Insert(const core::Command& command);
  absl::Status ReplayRow(sqlite3_stmt* row, Apply apply);

  const std::unique_ptr<SqliteDatabase> database_;
  std::unique_ptr<SqliteMark> mark_;
  bool had_mark_ = false;  // the journal says that it has one
  SqliteSnapshot snapshot_;
  SqliteDatabase::Statement insert_;
  bool format_is_ours_ = false;
  uint64_t last_sequence_ = 0;
  JournalTail tail_;
};

}  // namespace dp::server
