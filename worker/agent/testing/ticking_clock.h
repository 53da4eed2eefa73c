#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "base/clock.h"

namespace dp::worker {

// A clock that is one second later at each reading. Thread-safe.
class TickingClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixSeconds(++seconds_); }
  absl::Duration passed() const { return absl::Seconds(seconds_.load()); }

 private:
  mutable std::atomic<int64_t> seconds_ = 0;
};

}  // namespace dp::worker
