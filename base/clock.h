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

  // Since the host started, the time it was suspended included. The same for all processes of a
  // host, except in time namespaces. Any thread.
  static absl::Duration SinceBoot();
};

}  // namespace dp
