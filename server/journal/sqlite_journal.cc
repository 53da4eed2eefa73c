#include "server/journal/sqlite_journal.h"

#include <sqlite3.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/status.h"
#include "server/journal/convert_command.h"
#include "server/journal/sqlite_checksum.h"

namespace dp::server {
namespace {

// Marks the file as ours: "dpjl".
constexpr int64_t kApplicationId = 0x64706a6c;

// A table without rows says that the journal has a mark; earlier releases ignore it.
constexpr char kCountMarks[] = "SELECT count(*) FROM sqlite_master WHERE name = 'has_mark'";
constexpr char kNoteMark[] = "CREATE TABLE IF NOT EXISTS has_mark (unused)";

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteJournal>> SqliteJournal::Open(const std::string& file,
                                                                   const SqliteOptions& options) {
  DP_ASSIGN_OR_RETURN(auto database, SqliteDatabase::Open(file, kApplicationId, options));
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(std::move(database)));
  DP_RETURN_IF_ERROR(journal->Prepare());
  return journal;
}

absl::Status SqliteJournal::Prepare() {
  DP_RETURN_IF_ERROR(CheckFormat());
  const SqliteOptions& options = database_->options();
  DP_ASSIGN_OR_RETURN(mark_, SqliteMark::Open(database_->file(), options.vfs, options.mark_sync));
  DP_ASSIGN_OR_RETURN(const int64_t marks, database_->Number(kCountMarks));
  had_mark_ = marks > 0;
  const bool new_to_marks = !had_mark_ && !mark_->sequence().has_value() && !mark_->damaged();
  // Nothing is written before the comparison: a journal that knows marks has all its tables.
  if (new_to_marks) DP_RETURN_IF_ERROR(database_->EmptyWal());
  DP_RETURN_IF_ERROR(database_->Execute(
      "CREATE TABLE IF NOT EXISTS journal ("
      "sequence INTEGER PRIMARY KEY, record BLOB NOT NULL, checksum INTEGER NOT NULL)"));
  DP_RETURN_IF_ERROR(snapshot_.Prepare());
  DP_ASSIGN_OR_RETURN(insert_, database_->Compile("INSERT INTO journal VALUES (?, ?, ?)"));
  return absl::OkStatus();
}

absl::Status SqliteJournal::CheckFormat() {
  DP_ASSIGN_OR_RETURN(const int64_t format, database_->Number("PRAGMA user_version"));
  if (format > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "journal ", database_->file(), " has format ", format, ", this release knows up to ",
        kFormatVersion, "; start the release that wrote it, or a later one"));
  }
  format_is_ours_ = format == kFormatVersion;
  return absl::OkStatus();
}

absl::Status SqliteJournal::Replay(Restore restore, Apply apply) {
  DP_RETURN_IF_ERROR(ReplayAll(restore, apply));
  const absl::Status complete = CheckMark();
  if (complete.ok()) return TakeOver();
  if (!database_->options().accept_data_loss) {
    return absl::DataLossError(absl::StrCat(
        complete.message(),
        "; nothing was changed. Restore the whole data directory from a copy, or start with "
        "--accept-data-loss to go on with the commands up to ",
        last_sequence_));
  }
  Log(Severity::kWarning, "journal_data_loss_accepted",
      {{"reason", std::string(complete.message())}});
  DP_RETURN_IF_ERROR(mark_->Create(last_sequence_));
  return TakeOver();
}

absl::Status SqliteJournal::CheckMark() const {
  const std::string& file = database_->file();
  const auto loss = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat("journal ", file, ": ", what));
  };
  const std::optional<uint64_t> acknowledged = mark_->sequence();
  if (!acknowledged.has_value()) {
    if (!had_mark_ && !mark_->damaged()) return absl::OkStatus();
    return loss(absl::StrCat(mark_->path(), mark_->damaged() ? " is damaged" : " is missing",
                             ", so that acknowledged commands may be missing, too"));
  }
  if (last_sequence_ >= *acknowledged) return absl::OkStatus();
  return loss(absl::StrCat(
      *acknowledged - last_sequence_, " acknowledged commands are missing (", last_sequence_ + 1,
      " to ", *acknowledged, "): ", file, "-wal ",
      database_->found_wal() ? "is older or was cut, or the journal is older" : "is missing"));
}

absl::Status SqliteJournal::TakeOver() {
  DP_RETURN_IF_ERROR(database_->EmptyWal());
  if (!mark_->sequence().has_value()) {
    DP_RETURN_IF_ERROR(Marked(mark_->Create(last_sequence_)));
  }
  if (had_mark_) return absl::OkStatus();
  DP_RETURN_IF_ERROR(database_->Execute(kNoteMark));
  // In the file itself: without the write-ahead log the note would be missing, too.
  return database_->EmptyWal();
}

absl::Status SqliteJournal::ReplayAll(Restore restore, Apply apply) {
  DP_ASSIGN_OR_RETURN(SqliteSnapshot::Loaded loaded, snapshot_.Load());
  if (loaded.sequence != 0) restore(std::move(loaded.state));
  last_sequence_ = loaded.sequence;
  tail_ = {.snapshot_bytes = loaded.bytes};
  DP_ASSIGN_OR_RETURN(const SqliteDatabase::Statement rows,
                      database_->Compile("SELECT sequence, record, checksum FROM journal WHERE "
                                         "sequence > ? ORDER BY sequence"));
  DP_RETURN_IF_ERROR(database_->Bind(rows, {static_cast<int64_t>(last_sequence_)}));
  while (true) {
    const int step = sqlite3_step(rows.get());
    if (step == SQLITE_DONE) return absl::OkStatus();
    if (step != SQLITE_ROW) return database_->Error();
    DP_RETURN_IF_ERROR(ReplayRow(rows.get(), apply));
  }
}

absl::Status SqliteJournal::ReplayRow(sqlite3_stmt* row, Apply apply) {
  const auto sequence = static_cast<uint64_t>(sqlite3_column_int64(row, 0));
  if (sequence != last_sequence_ + 1) {
    return database_->Damaged(absl::StrCat("record ", last_sequence_ + 1, " is missing"));
  }
  const void* bytes = sqlite3_column_blob(row, 1);
  const absl::string_view data(static_cast<const char*>(bytes), sqlite3_column_bytes(row, 1));
  journal::JournalRecord record;
  if (Checksum(absl::StrCat(sequence), data) != sqlite3_column_int64(row, 2) ||
      !record.ParseFromArray(data.data(), static_cast<int>(data.size()))) {
    return database_->Damaged(absl::StrCat("record ", sequence, " does not match its checksum"));
  }
  const auto command = FromRecord(record);
  // The file itself is in order.
  if (absl::IsFailedPrecondition(command.status())) {
    return absl::FailedPreconditionError(absl::StrCat("journal ", database_->file(), ": record ",
                                                      sequence, ": ", command.status().message()));
  }
  if (!command.ok()) {
    return database_->Damaged(absl::StrCat("record ", sequence, ": ", command.status().message()));
  }
  last_sequence_ = sequence;
  ++tail_.commands;
  tail_.bytes += data.size();
  apply(*command);
  return absl::OkStatus();
}

absl::Status SqliteJournal::Append(absl::Span<const core::Command> commands) {
  if (commands.empty()) return absl::OkStatus();
  DP_RETURN_IF_ERROR(database_->Execute("BEGIN IMMEDIATE"));
  DP_RETURN_IF_ERROR(ClaimFormat());
  for (const core::Command& command : commands) DP_RETURN_IF_ERROR(Insert(command));
  DP_RETURN_IF_ERROR(database_->Execute("COMMIT"));
  return Marked(mark_->Raise(last_sequence_));
}

absl::Status SqliteJournal::Marked(absl::Status status) {
  if (!status.ok()) database_->GiveUp();
  return status;
}

absl::Status SqliteJournal::ClaimFormat() {
  if (std::exchange(format_is_ours_, true)) return absl::OkStatus();
  return database_->Execute(absl::StrCat("PRAGMA user_version = ", kFormatVersion));
}

absl::Status SqliteJournal::Insert(const core::Command& command) {
  const std::string record = ToRecord(command).SerializeAsString();
  const uint64_t sequence = ++last_sequence_;
  ++tail_.commands;
  tail_.bytes += record.size();
  return database_->Run(insert_, {static_cast<int64_t>(sequence), absl::string_view(record),
                                  Checksum(absl::StrCat(sequence), record)});
}

absl::Status SqliteJournal::Maintain() {
  DP_RETURN_IF_ERROR(snapshot_.Advance());
  return database_->CheckpointWhenDue();
}

// If the pragmas fail, the next append reports the error.
uint64_t SqliteJournal::spare_bytes() {
  const auto pages = database_->Number("PRAGMA freelist_count");
  const auto page_bytes = database_->Number("PRAGMA page_size");
  return pages.ok() && page_bytes.ok() ? static_cast<uint64_t>(*pages * *page_bytes) : 0;
}

void SqliteJournal::TakeSnapshot(const core::State& state) {
  tail_ = {.snapshot_bytes = snapshot_.Take(state, last_sequence_)};
}

}  // namespace dp::server
