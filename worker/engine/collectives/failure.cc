#include "worker/engine/collectives/failure.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dp::engine {

std::string RankNames(absl::Span<const int> ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

absl::Status DidNotArrive(absl::string_view operation, absl::Span<const int> missing,
                          absl::Duration timeout) {
  if (missing.empty())
    return absl::DeadlineExceededError(
        absl::StrCat(operation, " did not end within ", absl::FormatDuration(timeout)));
  return absl::DeadlineExceededError(absl::StrCat(operation, ": ", RankNames(missing),
                                                  " did not arrive within ",
                                                  absl::FormatDuration(timeout)));
}

absl::Status WentAway(absl::string_view operation, absl::Span<const int> ranks) {
  return absl::UnavailableError(absl::StrCat(operation, ": ", RankNames(ranks), " went away"));
}

absl::Status AbortedBecause(absl::string_view operation, const absl::Status& why) {
  return absl::AbortedError(absl::StrCat(operation, " was aborted: ", why.message()));
}

}  // namespace dp::engine
