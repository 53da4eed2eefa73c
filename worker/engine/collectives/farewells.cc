#include "worker/engine/collectives/farewells.h"

#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace dp::engine {

std::string EncodeRanks(absl::Span<const int> ranks) { return absl::StrJoin(ranks, ","); }

absl::StatusOr<std::vector<int>> DecodeRanks(absl::string_view text, int size) {
  std::vector<int> ranks;
  for (const absl::string_view rank : absl::StrSplit(text, ','))
    if (!absl::SimpleAtoi(rank, &ranks.emplace_back()) || ranks.back() < 0 || ranks.back() >= size)
      return absl::InternalError(absl::StrCat("'", text, "' lists no ranks"));
  return ranks;
}

std::vector<int> Farewells::Culprits(absl::Span<const int> ended, int self) const {
  std::set<int> culprits;
  for (const int peer : ended) {
    const auto said = gone_.find(peer);
    if (said == gone_.end()) {
      culprits.insert(peer);
      continue;
    }
    // Two ranks that have lost each other blame each other.
    for (const int rank : said->second) culprits.insert(rank == self ? peer : rank);
  }
  return {culprits.begin(), culprits.end()};
}

}  // namespace dp::engine
