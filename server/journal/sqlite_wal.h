#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp::server {

// Tells a WAL that a crash has torn from a WAL that was damaged later. SQLite ends both at the
// first frame with a wrong checksum. But each transaction is synced before the next one is written.
// If frames follow the transaction with the wrong frame, this one had been synced, and perhaps
// acknowledged. Assumes that the start that last found the WAL torn has emptied it
// (SqliteDatabase). Otherwise frames from before would look the same.
//
// Logs what a crash has torn (`journal_torn`).
//
// Call before SQLite opens `file`; `vfs` as for SQLite. Returns whether there is a WAL with
// content.
// Errors: DataLoss names the damage; Internal the WAL cannot be read.
absl::StatusOr<bool> CheckWal(const std::string& file, const char* vfs);

}  // namespace dp::server
