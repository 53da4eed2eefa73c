#pragma once

#include <atomic>

#include "absl/time/time.h"
#include "base/clock.h"

namespace dp {

// A clock that only tests advance. Thread-safe.
class SettableClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixMicros(microseconds_); }
  void Advance(absl::Duration duration) { microseconds_ += absl::ToInt64Microseconds(duration); }

 private:
  std::atomic<int64_t> microseconds_ = int64_t{1'700'000'000} * 1'000'000;
};

}  // namespace dp
