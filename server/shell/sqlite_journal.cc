#include "server/shell/sqlite_journal.h"

#include <sqlite3.h>
#include <zlib.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/shell/convert_command.h"

namespace dp::server {
namespace {

// Marks the file as ours: "dpjl".
constexpr int64_t kApplicationId = 0x64706a6c;

// The sequence goes in too, so that records do not change places unnoticed.
int64_t Checksum(int64_t sequence, absl::string_view record) {
  const std::string text = absl::StrCat(sequence, ":");
  const uLong head = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return static_cast<int64_t>(
      crc32_z(head, reinterpret_cast<const Bytef*>(record.data()), record.size()));
}

}  // namespace

void SqliteJournal::CloseDatabase::operator()(sqlite3* database) const { sqlite3_close(database); }

void SqliteJournal::FinalizeStatement::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

absl::StatusOr<std::unique_ptr<SqliteJournal>> SqliteJournal::Open(const std::string& file) {
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(file));
  sqlite3* database = nullptr;
  const int opened =
      sqlite3_open_v2(file.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  journal->database_.reset(database);
  if (opened != SQLITE_OK) return journal->Error();
  DP_RETURN_IF_ERROR(journal->Prepare());
  return journal;
}

absl::Status SqliteJournal::Prepare() {
  DP_RETURN_IF_ERROR(CheckFormat());
  // Exclusive: no shared-memory file, and a process that slipped past the lock cannot write.
  DP_RETURN_IF_ERROR(Execute("PRAGMA locking_mode = EXCLUSIVE"));
  DP_RETURN_IF_ERROR(Execute("PRAGMA journal_mode = WAL"));
  DP_RETURN_IF_ERROR(Execute("PRAGMA synchronous = FULL"));
  DP_RETURN_IF_ERROR(
      Execute("CREATE TABLE IF NOT EXISTS journal ("
              "sequence INTEGER PRIMARY KEY, record BLOB NOT NULL, checksum INTEGER NOT NULL)"));
  DP_ASSIGN_OR_RETURN(insert_, Compile("INSERT INTO journal VALUES (?, ?, ?)"));
  return absl::OkStatus();
}

absl::Status SqliteJournal::CheckFormat() {
  DP_ASSIGN_OR_RETURN(const int64_t schema, Number("PRAGMA schema_version"));
  DP_ASSIGN_OR_RETURN(const int64_t application, Number("PRAGMA application_id"));
  DP_ASSIGN_OR_RETURN(const int64_t format, Number("PRAGMA user_version"));
  if (schema == 0) {
    return Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                "; PRAGMA user_version = ", kFormatVersion)
                       .c_str());
  }
  if (application != kApplicationId) return Damaged("it is the database of another program");
  if (format > kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("journal ", file_, " has format ", format, ", this release knows up to ",
                     kFormatVersion, "; start the release that wrote it, or a later one"));
  }
  return absl::OkStatus();
}

absl::Status SqliteJournal::Replay(absl::FunctionRef<void(const core::Command&)> apply) {
  DP_ASSIGN_OR_RETURN(const Statement rows,
                      Compile("SELECT sequence, record, checksum FROM journal ORDER BY sequence"));
  while (true) {
    const int step = sqlite3_step(rows.get());
    if (step == SQLITE_DONE) return absl::OkStatus();
    if (step != SQLITE_ROW) return Error();
    DP_RETURN_IF_ERROR(ReplayRow(rows.get(), apply));
  }
}

absl::Status SqliteJournal::ReplayRow(sqlite3_stmt* row,
                                      absl::FunctionRef<void(const core::Command&)> apply) {
  const int64_t sequence = sqlite3_column_int64(row, 0);
  if (sequence != last_sequence_ + 1) {
    return Damaged(absl::StrCat("record ", last_sequence_ + 1, " is missing"));
  }
  const void* bytes = sqlite3_column_blob(row, 1);
  const absl::string_view data(static_cast<const char*>(bytes), sqlite3_column_bytes(row, 1));
  journal::JournalRecord record;
  if (Checksum(sequence, data) != sqlite3_column_int64(row, 2) ||
      !record.ParseFromArray(data.data(), static_cast<int>(data.size()))) {
    return Damaged(absl::StrCat("record ", sequence, " does not match its checksum"));
  }
  const auto command = FromRecord(record);
  if (!command.ok()) {
    return Damaged(absl::StrCat("record ", sequence, ": ", command.status().message()));
  }
  last_sequence_ = sequence;
  apply(*command);
  return absl::OkStatus();
}

absl::Status SqliteJournal::Append(absl::Span<const core::Command> commands) {
  DP_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  for (const core::Command& command : commands) DP_RETURN_IF_ERROR(Insert(command));
  return Execute("COMMIT");
}

absl::Status SqliteJournal::Insert(const core::Command& command) {
  const std::string record = ToRecord(command).SerializeAsString();
  const int64_t sequence = ++last_sequence_;
  sqlite3_bind_int64(insert_.get(), 1, sequence);
  sqlite3_bind_blob64(insert_.get(), 2, record.data(), record.size(), SQLITE_STATIC);
  sqlite3_bind_int64(insert_.get(), 3, Checksum(sequence, record));
  const int step = sqlite3_step(insert_.get());
  sqlite3_reset(insert_.get());
  return step == SQLITE_DONE ? absl::OkStatus() : Error();
}

absl::Status SqliteJournal::Execute(const char* sql) {
  return sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK
             ? absl::OkStatus()
             : Error();
}

absl::StatusOr<SqliteJournal::Statement> SqliteJournal::Compile(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) {
    return Error();
  }
  return Statement(statement);
}

absl::StatusOr<int64_t> SqliteJournal::Number(const char* sql) {
  DP_ASSIGN_OR_RETURN(const Statement statement, Compile(sql));
  if (sqlite3_step(statement.get()) != SQLITE_ROW) return Error();
  return sqlite3_column_int64(statement.get(), 0);
}

absl::Status SqliteJournal::Error() const {
  const int code = sqlite3_errcode(database_.get());
  const std::string what = sqlite3_errmsg(database_.get());
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) return Damaged(what);
  if (code == SQLITE_BUSY) {
    return absl::FailedPreconditionError(
        absl::StrCat("journal ", file_, " is in use by another process: ", what,
                     "; stop it (fuser names it), or choose another directory with --data-dir"));
  }
  return absl::InternalError(absl::StrCat("journal ", file_, ": ", what));
}

absl::Status SqliteJournal::Damaged(const std::string& what) const {
  return absl::DataLossError(absl::StrCat("journal ", file_, " cannot be trusted: ", what,
                                          "; restore it from a copy, or start with another "
                                          "--data-dir"));
}

}  // namespace dp::server
