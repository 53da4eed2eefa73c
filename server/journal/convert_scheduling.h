#pragma once

#include "absl/status/statusor.h"
#include "server/core/command.h"
#include "server/journal/journal_record.pb.h"

// Converts when and where a job may run to and from the journal's form. Pure; any thread.

namespace dp::server {

journal::Scheduling ToProto(const core::Scheduling& scheduling);
// Errors: DataLoss the proto holds something that this release does not know.
absl::StatusOr<core::Scheduling> FromProto(const journal::Scheduling& proto);

}  // namespace dp::server
