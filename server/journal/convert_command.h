#pragma once

#include "absl/status/statusor.h"
#include "server/core/command.h"
#include "server/journal/journal_record.pb.h"

// Converts commands between the core and the journal (journal_record.proto). Pure; any thread.

namespace dp::server {

journal::JournalRecord ToRecord(const core::Command& command);
// Errors: DataLoss the record holds nothing that this release knows; FailedPrecondition the command
// has a later version than this release knows (command_versions.h).
absl::StatusOr<core::Command> FromRecord(const journal::JournalRecord& record);

}  // namespace dp::server
