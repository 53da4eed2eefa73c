#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/logs.pb.h"
#include "server/core/job.h"
#include "server/core/worker.h"
#include "server/shell/log_chunk.h"

// Log chunks and positions between the wire and the store. Pure; any thread.

namespace dp::server {

// What one request may bring, so that what waits for the disk is bounded.
inline constexpr size_t kAppendBytesMax = 4 << 20;

// What `from` brings. Errors: InvalidArgument names a stream that the job does not have, or the
// size.
absl::StatusOr<LogBatch> FromProto(const v1::AppendLogsRequest& request, const core::Job& job,
                                   const core::Worker& from);
// Errors: InvalidArgument an unknown kind of stream.
absl::StatusOr<LogQuery> FromProto(const v1::ReadLogsRequest& request);
v1::LogChunk ToProto(LogChunk chunk);
v1::LogPosition ToProto(const LogPosition& position);
v1::OutstandingOutput ToProto(const OutstandingOutput& outstanding);

}  // namespace dp::server
