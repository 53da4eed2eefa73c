#pragma once

#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/dpctl/view/json_writer.h"
#include "dp/v1/checkpoints.pb.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The checkpoints on record of a job, newest first. Errors: as Context::Call.
absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(Context& context, uint64_t job);

// Writes one of them as an object.
void WriteCheckpoint(const v1::Checkpoint& checkpoint, JsonWriter& json);

// Writes "checkpoint" and "weights" of a job; null if there are none.
void WriteLeft(const v1::Job& job, JsonWriter& json);

// Writes both as lines of `describe`; nothing if there are none.
void DescribeLeft(const v1::Job& job, std::ostream& out);

}  // namespace dp::ctl
