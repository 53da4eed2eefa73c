#include "worker/library/ddp/uneven_inputs.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dp::library {

absl::StatusOr<Round> RoundOf(absl::Span<const Presence> ranks) {
  Round round;
  int averaging = -1, accumulating = -1;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    (ranks[rank] == Presence::kDone ? round.done : round.training).push_back(rank);
    if (ranks[rank] == Presence::kTraining) averaging = rank;
    if (ranks[rank] == Presence::kAccumulating) accumulating = rank;
  }
  if (averaging >= 0 && accumulating >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", accumulating, " is in no_sync and rank ", averaging,
                     " is not; leave the same backwards out on every rank"));
  }
  round.averages = accumulating < 0;
  return round;
}

Round RoundOfAll(int size) {
  Round round;
  round.training.resize(size);
  std::iota(round.training.begin(), round.training.end(), 0);
  return round;
}

std::string RanksHave(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "),
                      ranks.size() == 1 ? " has" : " have");
}

}  // namespace dp::library
