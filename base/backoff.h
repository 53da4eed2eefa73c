#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace dp {

struct BackoffOptions {
  absl::Duration initial = absl::Milliseconds(100);
  absl::Duration max = absl::Seconds(2);
  double multiplier = 2.0;
};

// The delay before the next try. It grows geometrically to a maximum. Each delay is drawn evenly
// from its upper half, so that many clients do not return at once. Pure: the same seed gives the
// same delays. Not thread-safe.
class Backoff {
 public:
  Backoff(const BackoffOptions& options, uint64_t seed);

  absl::Duration Next();
  // Restarts from the initial delay; call it after a success.
  void Reset();

 private:
  const BackoffOptions options_;
  absl::Duration ceiling_;
  uint64_t random_state_;
};

}  // namespace dp
