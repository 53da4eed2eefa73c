#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp::server {

// Tells a WAL that a crash has torn from one that was damaged later. SQLite ends both at the first
// frame whose checksum is wrong. But each transaction is synced before the next one is written: so
// where frames follow the transaction with the wrong one, it had been synced, and perhaps
// acknowledged. Presumes that the WAL was emptied by the start that last found it torn
// (SqliteDatabase): else frames from before that would look the same.
//
// What a crash has torn is told in the log (`journal_torn`).
//
// To be called before SQLite opens `file`; `vfs` as for SQLite. Returns whether there is a WAL with
// something in it. Errors: DataLoss says what is damaged; Internal it cannot be read.
absl::StatusOr<bool> CheckWal(const std::string& file, const char* vfs);

}  // namespace dp::server
