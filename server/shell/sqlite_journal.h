#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shell/journal.h"
#include "server/shell/sqlite_database.h"
#include "server/shell/sqlite_mark.h"
#include "server/shell/sqlite_snapshot.h"

namespace dp::server {

// The journal in an SQLite file: a table of (sequence, record, checksum), one transaction a batch,
// synced before it returns (docs/journal.md). A batch torn by a crash is rolled back by SQLite; a
// record that is there but damaged is refused, since acknowledged work would be lost silently; so
// is a journal that ends before its mark (SqliteMark). The caller keeps other processes away
// (DataDir).
//
// A file of an earlier format becomes one of this with the first Append: until then, as where its
// replay is refused, the release that wrote it can go on with it.
class SqliteJournal final : public Journal {
 public:
  // Raised when an older release could not read what this one writes. 2 has snapshots.
  static constexpr int kFormatVersion = 4;

  // Creates the file where it is missing. Errors: DataLoss it is no journal, or damaged;
  // FailedPrecondition a later format; Internal the storage.
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(const std::string& file,
                                                             const SqliteOptions& options = {});

  // Errors also: DataLoss acknowledged commands are missing. The files are then as they were.
  absl::Status Replay(Restore restore, Apply apply) override;
  absl::Status Append(absl::Span<const core::Command> commands) override;
  absl::Status Maintain() override;
  void TakeSnapshot(const core::State& state) override;
  bool compacting() const override { return snapshot_.busy(); }
  JournalTail tail() const override { return tail_; }
  uint64_t spare_bytes() override;

 private:
  explicit SqliteJournal(std::unique_ptr<SqliteDatabase> database)
      : database_(std::move(database)), snapshot_(*database_) {}

  absl::Status Prepare();
  absl::Status CheckFormat();
  absl::Status ReplayAll(Restore restore, Apply apply);
  // Compares what was replayed with the mark. Errors: DataLoss says what is missing.
  absl::Status CheckMark() const;
  // From now on the journal is written to.
  absl::Status TakeOver();
  // After an error of the mark nothing more is written to the journal either.
  absl::Status Marked(absl::Status status);
  // In the transaction that is open.
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
