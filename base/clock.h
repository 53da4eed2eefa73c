#pragma once

#include "absl/time/time.h"

namespace dp {

// The only source of time. Shells hold a Clock; cores take `now` as an argument.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;

  // The machine's clock. Never destroyed; any thread.
  static const Clock& System();
  // The system's time at first use, then advanced by elapsed time only: setting the machine's clock
  // has no effect. For waits. Never destroyed; any thread.
  static const Clock& Steady();
};

}  // namespace dp
