#pragma once

#include "absl/time/time.h"
#include "base/clock.h"

namespace dp::wire {

// The deadline of calls that block in the system, by the machine's own clock.
class Deadline {
 public:
  explicit Deadline(absl::Duration timeout) : at_(Clock::Steady().Now() + timeout) {}

  // Negative after the deadline.
  absl::Duration left() const { return at_ - Clock::Steady().Now(); }
  bool passed() const { return left() <= absl::ZeroDuration(); }

 private:
  absl::Time at_;
};

}  // namespace dp::wire
