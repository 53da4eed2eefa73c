#pragma once

#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp::library {

// Waits before another try. May return early.
inline void Pause(absl::Duration duration) {
  Mutex mu;
  CondVar never;
  MutexLock lock(mu);
  (void)never.WaitFor(mu, duration);
}

}  // namespace dp::library
