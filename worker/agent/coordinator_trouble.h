#pragma once

#include "absl/status/status.h"
#include "base/program/repeated_reason.h"

namespace dp::worker {

// Logs why calls to the coordinator fail, each reason once, and when one succeeds again. A
// coordinator that rejects calls for their rate answers: that is rate_limited, and not
// coordinator_unreachable. Not thread-safe.
class CoordinatorTrouble {
 public:
  void Failed(const absl::Status& status);
  void Worked();

 private:
  RepeatedReason unreachable_{"coordinator_unreachable"};
  bool limited_ = false;  // logged since the last success
};

}  // namespace dp::worker
