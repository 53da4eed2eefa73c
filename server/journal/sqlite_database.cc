#include "server/journal/sqlite_database.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/overloaded.h"
#include "base/program/log.h"
#include "base/status.h"
#include "server/journal/sqlite_wal.h"

namespace dp::server {
namespace {

// Bytes kept of a WAL that begins anew: the usual size.
constexpr int64_t kWalBytesKept = int64_t{64} << 20;

bool IsDamage(int code) { return code == SQLITE_CORRUPT || code == SQLITE_NOTADB; }

}  // namespace

void SqliteDatabase::CloseDatabase::operator()(sqlite3* database) const { sqlite3_close(database); }

void SqliteDatabase::FinalizeStatement::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

SqliteDatabase::~SqliteDatabase() = default;

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& file,
                                                                     int64_t application,
                                                                     const SqliteOptions& options) {
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(file, options));
  DP_RETURN_IF_ERROR(database->FindWal());
  sqlite3* handle = nullptr;
  const int opened = sqlite3_open_v2(
      file.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
      options.vfs);
  database->database_.reset(handle);
  if (opened != SQLITE_OK) return database->Error();
  DP_RETURN_IF_ERROR(database->Prepare(application));
  return database;
}

// SQLite ends a damaged WAL before the damage. If the loss is accepted, that part is used. SQLite
// opens no WAL whose database is missing, and drops one whose database is empty.
absl::Status SqliteDatabase::FindWal() {
  if (options_.accept_data_loss && options_.vfs == nullptr) {
    const FileDescriptor made(open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (!made.valid())
      return absl::InternalError(
          absl::StrCat("journal ", file_, " cannot be made: ", std::strerror(errno)));
  }
  const absl::StatusOr<bool> found = CheckWal(file_, options_.vfs);
  if (!absl::IsDataLoss(found.status()) || !options_.accept_data_loss) {
    DP_RETURN_IF_ERROR(found.status());
    found_wal_ = *found;
    return absl::OkStatus();
  }
  found_wal_ = true;
  Log(Severity::kWarning, "journal_data_loss_accepted",
      {{"reason", std::string(found.status().message())}});
  return absl::OkStatus();
}

absl::Status SqliteDatabase::Prepare(int64_t application) {
  GiveUp();  // until the WAL may be moved into the file
  // Exclusive before anything is read: there is no shared-memory file, and a process that slipped
  // past the lock cannot write.
  DP_RETURN_IF_ERROR(Execute("PRAGMA locking_mode = EXCLUSIVE"));
  // Syncs every commit. Also syncs the directory when the first transaction, which is not in the
  // WAL yet, has deleted its rollback journal. Otherwise a crash could bring the rollback journal
  // back, which would undo all.
  DP_RETURN_IF_ERROR(Execute("PRAGMA synchronous = EXTRA"));
  DP_ASSIGN_OR_RETURN(const int64_t schema, Number("PRAGMA schema_version"));
  DP_ASSIGN_OR_RETURN(const int64_t owner, Number("PRAGMA application_id"));
  if (schema != 0 && owner != application) return Damaged("it is the database of another program");
  DP_RETURN_IF_ERROR(UseWal());
  // A snapshot with the same content replaces what is deleted, so zeros would hide nothing.
  DP_RETURN_IF_ERROR(Execute("PRAGMA secure_delete = OFF"));
  // One large batch must not leave a large file for good.
  DP_RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA journal_size_limit = ", kWalBytesKept)));
  // SQLite's own checkpoints ignore an error, and try again after the next commit.
  const auto count_pages = [](void* pages, sqlite3*, const char*, int count) {
    *static_cast<int*>(pages) = count;
    return SQLITE_OK;
  };
  sqlite3_wal_hook(database_.get(), count_pages, &wal_pages_);
  DP_ASSIGN_OR_RETURN(const int64_t page_bytes, Number("PRAGMA page_size"));
  page_bytes_ = static_cast<uint64_t>(page_bytes);
  if (owner == application) return absl::OkStatus();
  return Execute(absl::StrCat("PRAGMA application_id = ", application));
}

// If the pragma fails, it reports no error, but answers the present mode.
absl::Status SqliteDatabase::UseWal() {
  DP_ASSIGN_OR_RETURN(const Statement statement, Compile("PRAGMA journal_mode = WAL"));
  if (sqlite3_step(statement.get()) != SQLITE_ROW) return Error();
  const auto* mode = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
  const bool is_wal = mode != nullptr && absl::string_view(mode) == "wal";
  if (sqlite3_step(statement.get()) != SQLITE_DONE) return Error();
  // The first read opens the WAL; a checkpoint before it would ignore an error.
  if (is_wal) return Number("PRAGMA schema_version").status();
  return absl::InternalError(absl::StrCat("journal ", file_,
                                          ": its write-ahead log cannot be opened; see to the "
                                          "disk, and start again"));
}

absl::Status SqliteDatabase::Execute(const std::string& sql) {
  return sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK
             ? absl::OkStatus()
             : Error();
}

absl::StatusOr<SqliteDatabase::Statement> SqliteDatabase::Compile(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) {
    return Error();
  }
  return Statement(statement);
}

absl::StatusOr<int64_t> SqliteDatabase::Number(const char* sql) {
  DP_ASSIGN_OR_RETURN(const Statement statement, Compile(sql));
  if (sqlite3_step(statement.get()) != SQLITE_ROW) return Error();
  return sqlite3_column_int64(statement.get(), 0);
}

absl::Status SqliteDatabase::Bind(const Statement& statement, std::initializer_list<Value> values) {
  sqlite3_stmt* raw = statement.get();
  int at = 0;
  for (const Value& value : values) {
    ++at;
    const int bound = std::visit(
        Overloaded{[&](int64_t number) { return sqlite3_bind_int64(raw, at, number); },
                   [&](absl::string_view bytes) {
                     return sqlite3_bind_blob64(raw, at, bytes.data(), bytes.size(), SQLITE_STATIC);
                   }},
        value);
    if (bound != SQLITE_OK) return Error();
  }
  return absl::OkStatus();
}

absl::Status SqliteDatabase::Run(const Statement& statement, std::initializer_list<Value> values) {
  DP_RETURN_IF_ERROR(Bind(statement, values));
  const absl::Status status =
      sqlite3_step(statement.get()) == SQLITE_DONE ? absl::OkStatus() : Error();
  sqlite3_reset(statement.get());
  return status;
}

int64_t SqliteDatabase::rows_changed() const { return sqlite3_changes64(database_.get()); }

absl::Status SqliteDatabase::EmptyWal() {
  DP_RETURN_IF_ERROR(Checkpoint(SQLITE_CHECKPOINT_TRUNCATE));
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return absl::OkStatus();
}

void SqliteDatabase::GiveUp() {
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

absl::Status SqliteDatabase::CheckpointWhenDue() {
  return wal_pages_ < options_.wal_pages ? absl::OkStatus() : Checkpoint(SQLITE_CHECKPOINT_PASSIVE);
}

absl::Status SqliteDatabase::Checkpoint(int mode) {
  wal_pages_ = 0;
  return sqlite3_wal_checkpoint_v2(database_.get(), nullptr, mode, nullptr, nullptr) == SQLITE_OK
             ? absl::OkStatus()
             : Error();
}

absl::Status SqliteDatabase::Error() {
  const int code = sqlite3_errcode(database_.get());
  const int cause = SystemError();
  std::string what = sqlite3_errmsg(database_.get());
  if (code == SQLITE_IOERR && cause != 0) {
    absl::StrAppend(&what, " (", std::generic_category().message(cause), ")");
  }
  // Closing would move the WAL into the file. After a failed write nobody knows what is on the
  // disk, so the next start must find out from the files.
  GiveUp();
  if (IsDamage(code)) return Damaged(what);
  if (code == SQLITE_BUSY) {
    return absl::FailedPreconditionError(
        absl::StrCat("journal ", file_, " is in use by another process: ", what,
                     "; stop it (fuser names it), or choose another directory with --data-dir"));
  }
  if (code == SQLITE_FULL) {
    return absl::ResourceExhaustedError(
        absl::StrCat("journal ", file_, ": ", what, "; free some room there and start again"));
  }
  return absl::InternalError(absl::StrCat("journal ", file_, ": ", what,
                                          "; see to the disk, and start again: all that was "
                                          "acknowledged is in the journal"));
}

// SQLite keeps the errno with each file; for a commit it is nowhere else.
int SqliteDatabase::SystemError() const {
  int number = 0;
  sqlite3_file* wal = nullptr;
  sqlite3_file_control(database_.get(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
  if (wal != nullptr && wal->pMethods != nullptr) {
    wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &number);
  }
  if (number == 0) {
    sqlite3_file_control(database_.get(), "main", SQLITE_FCNTL_LAST_ERRNO, &number);
  }
  return number;
}

absl::Status SqliteDatabase::Damaged(const std::string& what) const {
  return absl::DataLossError(absl::StrCat("journal ", file_, " cannot be trusted: ", what,
                                          "; restore it from a copy, or start with another "
                                          "--data-dir"));
}

}  // namespace dp::server
