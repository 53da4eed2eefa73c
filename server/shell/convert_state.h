#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/core/state.h"
#include "server/shell/journal_snapshot.pb.h"

// The machine's state between the core and the journal (journal_snapshot.proto). Pure; any thread.

namespace dp::server {

// The state as bytes, in pieces of about so many: a journal writes them one by one. One key, job or
// worker is never divided.
std::vector<std::string> ToPieces(const core::State& state, size_t piece_bytes);
// Errors: DataLoss a piece is damaged, or says something that this release does not know.
absl::StatusOr<core::State> FromPieces(absl::Span<const std::string> pieces);

// 0 for topics whose version is kept elsewhere: jobs and keys carry their own, logs have one in the
// shell.
journal::SavedVersion::Kind ToJournal(core::Topic::Kind kind);
journal::SavedAwaitedJob::State ToJournal(core::AwaitedJob::State state);

}  // namespace dp::server
