#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shell/journal.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dp::server {

// The journal in an SQLite file: a table of (sequence, record, checksum), one transaction a batch,
// synced before it returns (WAL, synchronous=FULL). A batch torn by a crash is rolled back by
// SQLite; a record that is there but damaged is refused, since acknowledged work would be lost
// silently. The caller keeps other processes away (DataDir).
class SqliteJournal final : public Journal {
 public:
  // Raised when an older release could not read what this one writes.
  static constexpr int kFormatVersion = 1;

  // Creates the file where it is missing. Errors: DataLoss it is no journal, or damaged;
  // FailedPrecondition a later format; Internal the storage.
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(const std::string& file);

  absl::Status Replay(absl::FunctionRef<void(const core::Command&)> apply) override;
  absl::Status Append(absl::Span<const core::Command> commands) override;

 private:
  struct CloseDatabase {
    void operator()(sqlite3* database) const;
  };
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

  explicit SqliteJournal(std::string file) : file_(std::move(file)) {}

  absl::Status Prepare();
  absl::Status CheckFormat();
  absl::Status Execute(const char* sql);
  absl::StatusOr<Statement> Compile(const char* sql);
  absl::StatusOr<int64_t> Number(const char* sql);
  absl::Status Insert(const core::Command& command);
  absl::Status ReplayRow(sqlite3_stmt* row, absl::FunctionRef<void(const core::Command&)> apply);
  absl::Status Error() const;
  absl::Status Damaged(const std::string& what) const;

  const std::string file_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
  Statement insert_;
  int64_t last_sequence_ = 0;
};

}  // namespace dp::server
