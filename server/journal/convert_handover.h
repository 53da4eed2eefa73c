#pragma once

#include "absl/status/statusor.h"
#include "server/core/command.h"
#include "server/journal/journal_record.pb.h"

namespace dp::server {

// To and from the journal's form. Pure; any thread. Errors: DataLoss this release does not know the
// cause.
journal::AskHandover::Cause ToProto(core::HandoverCause cause);
absl::StatusOr<core::HandoverCause> FromProto(journal::AskHandover::Cause cause);

}  // namespace dp::server
