#pragma once

#include "absl/synchronization/mutex.h"

namespace dp {

// gRPC's locks are absl's. As Debian builds these, they look for deadlocks whenever they are taken,
// which slows every call. Call it before the first server or channel; thread-safe.
inline void SearchNoDeadlocksInGrpc() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace dp
