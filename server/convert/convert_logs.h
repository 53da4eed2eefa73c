#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/logs.pb.h"
#include "server/core/job.h"
#include "server/core/worker.h"
#include "server/logs/log_chunk.h"

// Converts log chunks and positions between the wire and the store. Pure; any thread.

namespace dp::server {

// The most bytes of one request, which bounds what waits for the disk.
inline constexpr size_t kAppendBytesMax = 4 << 20;

// The batch that worker `from` sends. Errors: InvalidArgument the job does not have a stream, or a
// size is too large.
absl::StatusOr<LogBatch> FromProto(const v1::AppendLogsRequest& request, const core::Job& job,
                                   const core::Worker& from);
// Errors: InvalidArgument the kind of a stream is unknown.
absl::StatusOr<LogQuery> FromProto(const v1::ReadLogsRequest& request);
v1::LogChunk ToProto(LogChunk chunk);
v1::LogPosition ToProto(const LogPosition& position);
v1::OutstandingOutput ToProto(const OutstandingOutput& outstanding);

}  // namespace dp::server
