#include "server/journal/sqlite_snapshot.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/journal/convert_state.h"
#include "server/journal/sqlite_checksum.h"

namespace dp::server {
namespace {

// Some hundred pages of the file, about as many as a piece of a snapshot takes.
constexpr const char* kDropCommands =
    "DELETE FROM journal WHERE sequence <= "
    "min(?, (SELECT min(sequence) FROM journal) + 4999)";

std::string PieceName(uint64_t sequence, size_t piece) {
  return absl::StrCat("snapshot ", sequence, " piece ", piece);
}

int64_t HeadChecksum(uint64_t sequence, uint64_t pieces, uint64_t bytes) {
  return Checksum(absl::StrCat("snapshot ", sequence), absl::StrCat(pieces, " ", bytes));
}

}  // namespace

absl::Status SqliteSnapshot::Prepare() {
  DP_RETURN_IF_ERROR(database_.Execute(
      "CREATE TABLE IF NOT EXISTS snapshot (sequence INTEGER PRIMARY KEY, pieces INTEGER NOT NULL, "
      "bytes INTEGER NOT NULL, checksum INTEGER NOT NULL)"));
  DP_RETURN_IF_ERROR(
      database_.Execute("CREATE TABLE IF NOT EXISTS snapshot_piece (sequence INTEGER NOT NULL, "
                        "piece INTEGER NOT NULL, record BLOB NOT NULL, checksum INTEGER NOT NULL, "
                        "PRIMARY KEY (sequence, piece))"));
  DP_ASSIGN_OR_RETURN(insert_piece_,
                      database_.Compile("INSERT INTO snapshot_piece VALUES (?, ?, ?, ?)"));
  DP_ASSIGN_OR_RETURN(insert_, database_.Compile("INSERT INTO snapshot VALUES (?, ?, ?, ?)"));
  DP_ASSIGN_OR_RETURN(drop_older_, database_.Compile("DELETE FROM snapshot WHERE sequence < ?"));
  DP_ASSIGN_OR_RETURN(drop_piece_,
                      database_.Compile("DELETE FROM snapshot_piece WHERE rowid = (SELECT rowid "
                                        "FROM snapshot_piece WHERE sequence <> ? LIMIT 1)"));
  DP_ASSIGN_OR_RETURN(drop_commands_, database_.Compile(kDropCommands));
  return absl::OkStatus();
}

absl::StatusOr<SqliteSnapshot::Loaded> SqliteSnapshot::Load() {
  DP_ASSIGN_OR_RETURN(
      const SqliteDatabase::Statement row,
      database_.Compile("SELECT sequence, pieces, bytes, checksum FROM snapshot ORDER BY sequence "
                        "DESC LIMIT 1"));
  const int step = sqlite3_step(row.get());
  if (step == SQLITE_DONE) return Loaded();
  if (step != SQLITE_ROW) return database_.Error();
  sequence_ = static_cast<uint64_t>(sqlite3_column_int64(row.get(), 0));
  const auto count = static_cast<uint64_t>(sqlite3_column_int64(row.get(), 1));
  bytes_ = static_cast<uint64_t>(sqlite3_column_int64(row.get(), 2));
  if (HeadChecksum(sequence_, count, bytes_) != sqlite3_column_int64(row.get(), 3)) {
    return database_.Damaged(absl::StrCat("snapshot ", sequence_, " does not match its checksum"));
  }
  std::vector<std::string> pieces;
  DP_RETURN_IF_ERROR(LoadPieces(count, &pieces));
  auto state = FromPieces(pieces);
  if (!state.ok()) {
    return database_.Damaged(absl::StrCat("snapshot ", sequence_, ": ", state.status().message()));
  }
  return Loaded{sequence_, bytes_, *std::move(state)};
}

absl::Status SqliteSnapshot::LoadPieces(uint64_t count, std::vector<std::string>* pieces) {
  DP_ASSIGN_OR_RETURN(
      const SqliteDatabase::Statement rows,
      database_.Compile("SELECT piece, record, checksum FROM snapshot_piece WHERE sequence = ? "
                        "ORDER BY piece"));
  DP_RETURN_IF_ERROR(database_.Bind(rows, {static_cast<int64_t>(sequence_)}));
  while (true) {
    const int step = sqlite3_step(rows.get());
    const std::string name = PieceName(sequence_, pieces->size());
    if (step == SQLITE_DONE) {
      if (pieces->size() == count) return absl::OkStatus();
      return database_.Damaged(absl::StrCat(name, " is missing"));
    }
    if (step != SQLITE_ROW) return database_.Error();
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(rows.get(), 1));
    const absl::string_view record(bytes, sqlite3_column_bytes(rows.get(), 1));
    if (Checksum(name, record) != sqlite3_column_int64(rows.get(), 2)) {
      return database_.Damaged(absl::StrCat(name, " does not match its checksum"));
    }
    pieces->emplace_back(record);
  }
}

uint64_t SqliteSnapshot::Take(const core::State& state, uint64_t sequence) {
  DP_CHECK(!busy() && sequence > sequence_);
  pieces_ = ToPieces(state, database_.options().piece_bytes);
  written_ = 0;
  written_bytes_ = 0;
  sequence_ = sequence;
  bytes_ = 0;
  for (const std::string& piece : pieces_) bytes_ += piece.size();
  step_ = Step::kWrite;
  return bytes_;
}

absl::Status SqliteSnapshot::Advance() {
  switch (step_) {
    case Step::kNone:
      return absl::OkStatus();
    case Step::kWrite:
      return written_ < pieces_.size() ? Write() : Complete();
    case Step::kDropPieces:
      return Drop(drop_piece_, Step::kDropCommands);
    case Step::kDropCommands:
      return Drop(drop_commands_, Step::kNone);
  }
  return absl::OkStatus();
}

absl::Status SqliteSnapshot::Write() {
  const size_t number = written_++;
  const std::string& piece = pieces_[number];
  written_bytes_ += piece.size();
  return database_.Run(insert_piece_,
                       {static_cast<int64_t>(sequence_), static_cast<int64_t>(number),
                        absl::string_view(piece), Checksum(PieceName(sequence_, number), piece)});
}

absl::Status SqliteSnapshot::Complete() {
  const auto sequence = static_cast<int64_t>(sequence_);
  DP_RETURN_IF_ERROR(database_.Execute("BEGIN IMMEDIATE"));
  DP_RETURN_IF_ERROR(database_.Run(
      insert_, {sequence, static_cast<int64_t>(pieces_.size()), static_cast<int64_t>(bytes_),
                HeadChecksum(sequence_, pieces_.size(), bytes_)}));
  DP_RETURN_IF_ERROR(database_.Run(drop_older_, {sequence}));
  DP_RETURN_IF_ERROR(database_.Execute("COMMIT"));
  pieces_.clear();
  step_ = Step::kDropPieces;
  return absl::OkStatus();
}

absl::Status SqliteSnapshot::Drop(const SqliteDatabase::Statement& statement, Step next) {
  DP_RETURN_IF_ERROR(database_.Run(statement, {static_cast<int64_t>(sequence_)}));
  if (database_.rows_changed() == 0) step_ = next;
  return absl::OkStatus();
}

}  // namespace dp::server
