#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/state.h"
#include "server/shell/sqlite_database.h"

namespace dp::server {

// The snapshots in a journal's database. A new one is written a piece at a time and counts once all
// of it is there; then the one before and the commands that it replaces go, a share at a time. Not
// thread-safe; owned by the journal.
class SqliteSnapshot {
 public:
  struct Loaded {
    uint64_t sequence = 0;  // of the last command that made the state; 0: there is no snapshot
    uint64_t bytes = 0;
    core::State state;
  };

  explicit SqliteSnapshot(SqliteDatabase& database) : database_(database) {}

  // Makes the tables where they are missing. First of all.
  absl::Status Prepare();
  // The one that counts. Errors: DataLoss a piece is damaged or missing.
  absl::StatusOr<Loaded> Load();

  // Begins one of `state`, which the command `sequence` was the last to change. Returns its size.
  // Precondition: !busy().
  uint64_t Take(const core::State& state, uint64_t sequence);
  bool busy() const { return step_ != Step::kNone; }
  // Writes a piece, or drops a share of what is replaced; a transaction of its own.
  absl::Status Advance();

 private:
  enum class Step { kNone, kWrite, kDropPieces, kDropCommands };

  absl::Status LoadPieces(uint64_t count, std::vector<std::string>* pieces);
  absl::Status Write();
  absl::Status Complete();
  absl::Status Drop(const SqliteDatabase::Statement& statement, Step next);

  SqliteDatabase& database_;
  SqliteDatabase::Statement insert_piece_, insert_, drop_older_, drop_piece_, drop_commands_;
  Step step_ = Step::kDropPieces;  // what a crash has left
  uint64_t sequence_ = 0;          // of the one that counts or is being written
  uint64_t bytes_ = 0;
  std::vector<std::string> pieces_;  // of the one being written
  size_t written_ = 0;               // of these
};

}  // namespace dp::server
