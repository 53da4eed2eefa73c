#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

// The errors of a group's operations, in the same words for every backend.

namespace dp::engine {

// "rank 1" or "ranks 1, 3". If there are many, the first ones and how many more.
std::string RankNames(absl::Span<const int> ranks);

// DeadlineExceeded. `missing` may be empty where the backend cannot tell. The status carries the
// ranks as a payload for MissingRanks; as text they show only in the message.
absl::Status DidNotArrive(absl::string_view operation, absl::Span<const int> missing,
                          absl::Duration timeout);
// `status` with the ranks that are missing, for MissingRanks.
absl::Status WithMissing(absl::Status status, absl::Span<const int> missing);
// The ranks that did not arrive, as the error of an operation carries them; empty for any other
// status.
std::vector<int> MissingRanks(const absl::Status& status);
// Unavailable. The status carries the ranks for GoneRanks.
absl::Status WentAway(absl::string_view operation, absl::Span<const int> ranks);
// Unavailable, not yet as the error of an operation: they left the group while others call.
absl::Status HaveLeft(absl::Span<const int> ranks);
// `status` with the ranks that are gone, for GoneRanks.
absl::Status WithGone(absl::Status status, absl::Span<const int> gone);
// The ranks that went away, as the error of an operation carries them; empty for any other status.
// They are no missing ranks: a job accuses those, because they live.
std::vector<int> GoneRanks(const absl::Status& status);
// Unavailable: an error that `ranks` did not cause ended the operation while it waited for them.
// They live; the status carries them for MissingRanks.
absl::Status WaitedInVain(absl::string_view operation, absl::Span<const int> ranks);
// `status` with `more` appended to its message; keeps the payloads.
absl::Status WithMore(const absl::Status& status, absl::string_view more);
// `status` as the error of the operation; keeps the payloads.
absl::Status InOperation(absl::string_view operation, const absl::Status& status);
// Aborted.
absl::Status AbortedBecause(absl::string_view operation, const absl::Status& why);

}  // namespace dp::engine
