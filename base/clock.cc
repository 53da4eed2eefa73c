#include "base/clock.h"

#include <time.h>

#include "absl/time/clock.h"

namespace dp {
namespace {

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

class SteadyClock final : public Clock {
 public:
  absl::Time Now() const override { return booted_at_ + SinceBoot(); }

 private:
  const absl::Time booted_at_ = absl::Now() - SinceBoot();
};

}  // namespace

// Advances while the machine is suspended, as other machines' clocks do.
absl::Duration Clock::SinceBoot() {
  timespec time = {};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return absl::DurationFromTimespec(time);
}

const Clock& Clock::Steady() {
  static const SteadyClock clock;
  return clock;
}

const Clock& Clock::System() {
  static const SystemClock clock;
  return clock;
}

}  // namespace dp
