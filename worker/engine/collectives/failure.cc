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

// Names of payloads, which list ranks in decimal, separated by commas.
constexpr char kMissingRanks[] = "dp/missing_ranks";
constexpr char kGoneRanks[] = "dp/gone_ranks";
// A text names so many ranks; the payload has all.
constexpr size_t kNamedMax = 64;

absl::Status Listing(absl::Status status, absl::string_view list, absl::Span<const int> ranks) {
  status.SetPayload(list, absl::Cord(absl::StrJoin(ranks, ",")));
  return status;
}

std::vector<int> Listed(const absl::Status& status, absl::string_view list) {
  std::vector<int> ranks;
  const absl::optional<absl::Cord> listed = status.GetPayload(list);
  if (!listed.has_value()) return ranks;
  for (const absl::string_view rank : absl::StrSplit(std::string(*listed), ',')) {
    DP_CHECK(absl::SimpleAtoi(rank, &ranks.emplace_back()));
  }
  return ranks;
}

absl::Status Reworded(const absl::Status& status, const std::string& words) {
  absl::Status reworded(status.code(), words);
  status.ForEachPayload([&reworded](absl::string_view type, const absl::Cord& payload) {
    reworded.SetPayload(type, payload);
  });
  return reworded;
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
  return missing.empty() ? status : Listing(std::move(status), kMissingRanks, missing);
}

absl::Status DidNotArrive(absl::string_view operation, absl::Span<const int> missing,
                          absl::Duration timeout) {
  if (missing.empty())
    return absl::DeadlineExceededError(
        absl::StrCat(operation, " did not end within ", absl::FormatDuration(timeout)));
  return Listing(absl::DeadlineExceededError(absl::StrCat(operation, ": ", RankNames(missing),
                                                          " did not arrive within ",
                                                          absl::FormatDuration(timeout))),
                 kMissingRanks, missing);
}

std::vector<int> MissingRanks(const absl::Status& status) { return Listed(status, kMissingRanks); }

std::vector<int> GoneRanks(const absl::Status& status) { return Listed(status, kGoneRanks); }

absl::Status WithGone(absl::Status status, absl::Span<const int> gone) {
  return Listing(std::move(status), kGoneRanks, gone);
}

absl::Status HaveLeft(absl::Span<const int> ranks) {
  return WithGone(absl::UnavailableError(absl::StrCat(
                      RankNames(ranks), ranks.size() == 1 ? " has" : " have", " left the group")),
                  ranks);
}

absl::Status WentAway(absl::string_view operation, absl::Span<const int> ranks) {
  return WithGone(
      absl::UnavailableError(absl::StrCat(operation, ": ", RankNames(ranks), " went away")), ranks);
}

absl::Status WaitedInVain(absl::string_view operation, absl::Span<const int> ranks) {
  return Listing(
      absl::UnavailableError(absl::StrCat(operation, ": ", RankNames(ranks), " did not arrive")),
      kMissingRanks, ranks);
}

absl::Status WithMore(const absl::Status& status, absl::string_view more) {
  return Reworded(status, absl::StrCat(status.message(), more));
}

absl::Status InOperation(absl::string_view operation, const absl::Status& status) {
  return Reworded(status, absl::StrCat(operation, ": ", status.message()));
}

absl::Status AbortedBecause(absl::string_view operation, const absl::Status& why) {
  return absl::AbortedError(absl::StrCat(operation, " was aborted: ", why.message()));
}

}  // namespace dp::engine
