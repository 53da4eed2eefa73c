#pragma once

#include "absl/time/time.h"

namespace dp {

// The only way to ask for the time. Shells hold a Clock; cores take `now` as an argument.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;

  // The machine's clock. Lives for ever; any thread.
  static const Clock& System();
  // The same time when it is first asked for, and from then on as it passes: nobody can set this
  // one. For what waits. Lives for ever; any thread.
  static const Clock& Steady();
};

}  // namespace dp
