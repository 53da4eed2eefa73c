#include "server/journal/sqlite_file.h"

#include <sqlite3.h>

namespace dp::server {

void CloseSqliteFile::operator()(sqlite3_file* file) const {
  if (file->pMethods != nullptr) file->pMethods->xClose(file);
  delete[] reinterpret_cast<char*>(file);
}

int SqliteFileExists(const char* vfs_name, const std::string& path, bool* exists) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(vfs_name);
  int found = 0;
  const int code = vfs->xAccess(vfs, path.c_str(), SQLITE_ACCESS_EXISTS, &found);
  *exists = found != 0;
  return code;
}

int OpenSqliteFile(const char* vfs_name, const std::string& path, int flags, SqliteFile* file) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(vfs_name);
  file->reset(reinterpret_cast<sqlite3_file*>(new char[vfs->szOsFile]()));
  return vfs->xOpen(vfs, path.c_str(), file->get(), flags, nullptr);
}

}  // namespace dp::server
