#include "worker/engine/collectives/failure.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "base/check.h"

namespace dp::engine {
namespace {

// The name of the payload, which lists the ranks in decimal, separated by commas.
constexpr char kMissingRanks[] = "dp/missing_ranks";
// A text names so many ranks; the payload has all.
constexpr size_t kNamedMax = 64;

absl::Status Naming(absl::Status status, absl::Span<const int> missing) {
  status.SetPayload(kMissingRanks, absl::Cord(absl::StrJoin(missing, ",")));
  return status;
}

}  // namespace

std::string RankNames(absl::Span<const int> ranks) {
  const absl::Span<const int> named = ranks.subspan(0, kNamedMax);
  const std::string names =
      absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(named, ", "));
  if (named.size() == ranks.size()) return names;
  return absl::StrCat(names, " and ", ranks.size() - named.size(), " more");
}

absl::Status WithMissing(absl::Status status, absl::Span<const int> missing) {
  return missing.empty() ? status : Naming(std::move(status), missing);
}

absl::Status DidNotArrive(absl::string_view operation, absl::Span<const int> missing,
                          absl::Duration timeout) {
  if (missing.empty())
    return absl::DeadlineExceededError(
        absl::StrCat(operation, " did not end within ", absl::FormatDuration(timeout)));
  return Naming(absl::DeadlineExceededError(absl::StrCat(operation, ": ", RankNames(missing),
                                                         " did not arrive within ",
                                                         absl::FormatDuration(timeout))),
                missing);
}

std::vector<int> MissingRanks(const absl::Status& status) {
  std::vector<int> ranks;
  const absl::optional<absl::Cord> listed = status.GetPayload(kMissingRanks);
  if (!listed.has_value()) return ranks;
  for (const absl::string_view rank : absl::StrSplit(std::string(*listed), ',')) {
    DP_CHECK(absl::SimpleAtoi(rank, &ranks.emplace_back()));
  }
  return ranks;
}

absl::Status WentAway(absl::string_view operation, absl::Span<const int> ranks) {
  return absl::UnavailableError(absl::StrCat(operation, ": ", RankNames(ranks), " went away"));
}

absl::Status WaitedInVain(absl::string_view operation, absl::Span<const int> ranks) {
  return Naming(
      absl::UnavailableError(absl::StrCat(operation, ": ", RankNames(ranks), " did not arrive")),
      ranks);
}

absl::Status WithMore(const absl::Status& status, absl::string_view more) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), more));
  status.ForEachPayload([&longer](absl::string_view type, const absl::Cord& payload) {
    longer.SetPayload(type, payload);
  });
  return longer;
}

absl::Status AbortedBecause(absl::string_view operation, const absl::Status& why) {
  return absl::AbortedError(absl::StrCat(operation, " was aborted: ", why.message()));
}

}  // namespace dp::engine
