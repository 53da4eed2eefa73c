#pragma once

#include <map>

#include "absl/status/statusor.h"
#include "server/logs/log_chunk.h"
#include "server/logs/log_file.h"

namespace dp::server {

// Whether the query selects streams of this kind.
bool SelectsKind(const LogQuery& query, LogStreamKey::Kind kind);

// Reads the next page of what `query` selects, of at most about kLogPageBytesMax. Generations come
// one after the other. Each stream of one that has bytes gets a share, so that a busy stream does
// not hold back the others. Where bytes are missing, a chunk with `cut_bytes` holds a line that
// says so. Errors: those of LogFile::Read.
absl::StatusOr<LogPage> ReadPage(const std::map<LogStreamKey, LogFile>& streams,
                                 const LogQuery& query);

}  // namespace dp::server
