#pragma once

#include <memory>
#include <string>

struct sqlite3_file;

namespace dp::server {

// Files that are opened through one of SQLite's VFSs, so that tests can replace the disk under them
// as under the database.

struct CloseSqliteFile {
  void operator()(sqlite3_file* file) const;
};
using SqliteFile = std::unique_ptr<sqlite3_file, CloseSqliteFile>;

// Both return SQLite's code. A null `vfs` is the default one.
int SqliteFileExists(const char* vfs, const std::string& path, bool* exists);
// `flags`: SQLITE_OPEN_... The file uses the characters of `path` until it is closed.
int OpenSqliteFile(const char* vfs, const std::string& path, int flags, SqliteFile* file);

}  // namespace dp::server
