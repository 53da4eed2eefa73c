#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/core/state.h"
#include "server/journal/journal_snapshot.pb.h"

// Converts the machine's state to and from the journal's form (journal_snapshot.proto). Pure; any
// thread.

namespace dp::server {

// The state as bytes, in pieces of about `piece_bytes`, which a journal writes one by one. A key,
// job or worker is never divided.
std::vector<std::string> ToPieces(const core::State& state, size_t piece_bytes);
// Errors: DataLoss a piece is damaged, or holds something that this release does not know.
absl::StatusOr<core::State> FromPieces(absl::Span<const std::string> pieces);

// 0 for topics whose version is kept elsewhere: jobs and keys hold their own, and the driver holds
// that of logs.
journal::SavedVersion::Kind ToJournal(core::Topic::Kind kind);

}  // namespace dp::server
