#pragma once

#include <map>

#include "absl/status/statusor.h"
#include "server/shell/log_chunk.h"
#include "server/shell/log_file.h"

namespace dp::server {

// Whether the query asks for streams of that kind.
bool SelectsKind(const LogQuery& query, LogStreamKey::Kind kind);

// Reads the next page of what `query` selects, at most about kLogPageBytesMax: a share for each
// stream that has something, so that a busy one does not hold back the others. Where bytes are
// missing, a chunk with `cut_bytes` has a line that says so. Errors: those of LogFile::Read.
absl::StatusOr<LogPage> ReadPage(const std::map<LogStreamKey, LogFile>& streams,
                                 const LogQuery& query);

}  // namespace dp::server
