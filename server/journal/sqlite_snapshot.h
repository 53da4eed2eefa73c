#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/state.h"
#include "server/journal/sqlite_database.h"

namespace dp::server {

// The snapshots in a journal's database. A new snapshot is written a piece at a time, and is valid
// once it is complete. Then the previous snapshot and the replaced commands are dropped, a share at
// a time. Not thread-safe; owned by the journal.
class SqliteSnapshot {
 public:
  struct Loaded {
    uint64_t sequence = 0;  // of the last command in the state; 0: there is no snapshot
    uint64_t bytes = 0;
    core::State state;
  };

  explicit SqliteSnapshot(SqliteDatabase& database) : database_(database) {}

  // Makes the tables if they are missing. Call first.
  absl::Status Prepare();
  // Loads the valid snapshot. Errors: DataLoss a piece is damaged or missing.
  absl::StatusOr<Loaded> Load();

  // Begins a snapshot of `state`, which command `sequence` was the last to change. Returns its size
  // in bytes. Precondition: !busy().
  uint64_t Take(const core::State& state, uint64_t sequence);
  bool busy() const { return step_ != Step::kNone; }
  // Bytes of the snapshot under way that are not written yet.
  uint64_t unwritten_bytes() const { return step_ == Step::kWrite ? bytes_ - written_bytes_ : 0; }
  // Writes a piece, or drops a share of what is replaced, in a transaction of its own.
  absl::Status Advance();

 private:
  enum class Step { kNone, kWrite, kDropPieces, kDropCommands };

  absl::Status LoadPieces(uint64_t count, std::vector<std::string>* pieces);
  absl::Status Write();
  absl::Status Complete();
  absl::Status Drop(const SqliteDatabase::Statement& statement, Step next);

  SqliteDatabase& database_;
  SqliteDatabase::Statement insert_piece_, insert_, drop_older_, drop_piece_, drop_commands_;
  Step step_ = Step::kDropPieces;  // drops what a crash has left
  uint64_t sequence_ = 0;          // of the snapshot that is valid or being written
  uint64_t bytes_ = 0;
  std::vector<std::string> pieces_;  // of the snapshot that is being written
  size_t written_ = 0;               // of pieces_
  uint64_t written_bytes_ = 0;       // of bytes_
};

}  // namespace dp::server
