#pragma once

#include "absl/time/time.h"
#include "base/clock.h"

namespace dp::wire {

// The end of what blocks in the system, and therefore lasts by the machine's own clock.
class Deadline {
 public:
  explicit Deadline(absl::Duration timeout) : at_(Clock::Steady().Now() + timeout) {}

  // Negative once it has passed.
  absl::Duration left() const { return at_ - Clock::Steady().Now(); }
  bool passed() const { return left() <= absl::ZeroDuration(); }

 private:
  absl::Time at_;
};

}  // namespace dp::wire
