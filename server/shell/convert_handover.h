#pragma once

#include "absl/status/statusor.h"
#include "server/core/command.h"
#include "server/shell/journal_record.pb.h"

namespace dp::server {

// The journal's form. Pure; any thread. Errors: DataLoss one that this release does not know.
journal::AskHandover::Cause ToProto(core::HandoverCause cause);
absl::StatusOr<core::HandoverCause> FromProto(journal::AskHandover::Cause cause);

}  // namespace dp::server
