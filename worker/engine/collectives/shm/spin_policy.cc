#include "worker/engine/collectives/shm/spin_policy.h"

#include <algorithm>

namespace dp::engine {
namespace {

// A few times what a sleep and a wake cost on an idle host. Longer waits are not worth it: the peer
// computes, or another program has its core.
constexpr absl::Duration kSpinMax = absl::Microseconds(50);
// A long wait counts as this long. A few short waits then suffice to spin again.
constexpr absl::Duration kLongestWait = absl::Microseconds(400);
// The latest wait counts for one part in so many.
constexpr int kWaitsInMind = 4;

absl::Duration SpinMax(int cores, int ranks) {
  if (cores < ranks) return absl::ZeroDuration();
  // Without a spare core a spinning rank takes time from its own computing threads.
  return cores == ranks ? kSpinMax / 2 : kSpinMax;
}

}  // namespace

SpinPolicy::SpinPolicy(int cores, int ranks) : spin_max_(SpinMax(cores, ranks)) {}

absl::Duration SpinPolicy::budget() const {
  return typical_ <= kSpinMax ? spin_max_ : absl::ZeroDuration();
}

void SpinPolicy::Ended(absl::Duration waited) {
  typical_ += (std::min(waited, kLongestWait) - typical_) / kWaitsInMind;
}

}  // namespace dp::engine
