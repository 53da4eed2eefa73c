#pragma once

#include "absl/status/statusor.h"
#include "server/core/command.h"
#include "server/shell/journal_record.pb.h"

// Commands between the core and the journal: convert_command.cc writes, convert_record.cc reads.
// Pure; any thread.

namespace dp::server {

journal::JournalRecord ToRecord(const core::Command& command);
core::KeptAnswers KeptAnswersOf(const journal::StartEpoch& start);
// Errors: DataLoss a record that says nothing this release knows; FailedPrecondition a later
// version of a command than it knows (command_versions.h).
absl::StatusOr<core::Command> FromRecord(const journal::JournalRecord& record);

}  // namespace dp::server
