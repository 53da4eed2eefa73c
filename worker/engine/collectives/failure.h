#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

// How an operation of a group fails, in the same words for every backend.

namespace dp::engine {

// "rank 1" or "ranks 1, 3".
std::string RankNames(absl::Span<const int> ranks);

// DeadlineExceeded; `missing` may be empty where the backend cannot tell. It rides along with the
// status, for MissingRanks; as text it shows only in the message.
absl::Status DidNotArrive(absl::string_view operation, absl::Span<const int> missing,
                          absl::Duration timeout);
// The ranks that an operation's error says did not arrive; empty for any other status.
std::vector<int> MissingRanks(const absl::Status& status);
// Unavailable.
absl::Status WentAway(absl::string_view operation, absl::Span<const int> ranks);
// Unavailable: the operation failed by somebody else's doing while it waited for `ranks`, which
// live and ride along for MissingRanks.
absl::Status WaitedInVain(absl::string_view operation, absl::Span<const int> ranks);
// The same status with `more` behind its message.
absl::Status WithMore(const absl::Status& status, absl::string_view more);
// Aborted.
absl::Status AbortedBecause(absl::string_view operation, const absl::Status& why);

}  // namespace dp::engine
