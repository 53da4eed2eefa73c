#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dp::library {

// A rank's next step, as it tells the others where ranks may have unequal numbers of batches. The
// numbers are part of what ranks tell each other.
enum class Presence : uint8_t {
  kDone = 0,          // no batch left
  kTraining = 1,      // a backward that is averaged follows
  kAccumulating = 2,  // a backward that is not averaged follows
};

// The next step of all ranks. Without join, all train.
struct Round {
  std::vector<int> done;      // ranks
  std::vector<int> training;  // the others
  bool averages = true;       // whether the backward that follows is averaged

  // The rank whose replica the others take.
  int root() const { return training.empty() ? 0 : training.front(); }
};

// Errors: InvalidArgument some ranks average their next backward, and others do not.
absl::StatusOr<Round> RoundOf(absl::Span<const Presence> ranks);
Round RoundOfAll(int size);

// "rank 1 has", "ranks 1, 2 have".
std::string RanksHave(const std::vector<int>& ranks);

}  // namespace dp::library
