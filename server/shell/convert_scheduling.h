#pragma once

#include "absl/status/statusor.h"
#include "server/core/command.h"
#include "server/shell/journal_record.pb.h"

// When and where a job may run, as the journal keeps it. Pure; any thread.

namespace dp::server {

journal::Scheduling ToProto(const core::Scheduling& scheduling);
// Errors: DataLoss.
absl::StatusOr<core::Scheduling> FromProto(const journal::Scheduling& proto);

}  // namespace dp::server
