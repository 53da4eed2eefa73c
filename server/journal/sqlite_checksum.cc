#include "server/journal/sqlite_checksum.h"

#include <zlib.h>

namespace dp::server {

int64_t Checksum(const std::string& name, absl::string_view record) {
  const uLong head = crc32_z(0, reinterpret_cast<const Bytef*>(name.data()), name.size());
  const uLong colon = crc32_z(head, reinterpret_cast<const Bytef*>(":"), 1);
  // SQLite gives an empty blob as null, for which zlib would begin anew.
  if (record.empty()) return static_cast<int64_t>(colon);
  return static_cast<int64_t>(
      crc32_z(colon, reinterpret_cast<const Bytef*>(record.data()), record.size()));
}

}  // namespace dp::server
