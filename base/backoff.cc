#include "base/backoff.h"

#include <algorithm>

#include "base/random.h"

namespace dp {

Backoff::Backoff(const BackoffOptions& options, uint64_t seed)
    : options_(options), ceiling_(options.initial), random_state_(seed) {}

absl::Duration Backoff::Next() {
  const absl::Duration ceiling = ceiling_;
  ceiling_ = std::min(options_.max, ceiling_ * options_.multiplier);
  return ceiling * (0.5 + 0.5 * UnitInterval(NextRandom(random_state_)));
}

void Backoff::Reset() { ceiling_ = options_.initial; }

}  // namespace dp
