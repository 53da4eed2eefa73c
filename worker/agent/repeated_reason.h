#pragma once

#include <string>

#include "absl/status/status.h"

namespace dp::worker {

// Logs why something does not work when the reason is new, not at every try; and once when it works
// again. Not thread-safe.
class RepeatedReason {
 public:
  // `event` names the trouble, as log_not_shipped.
  explicit RepeatedReason(std::string event);

  void Failed(const absl::Status& status);
  void Worked();

 private:
  const std::string event_;
  std::string reason_;  // the last one logged; empty while it works
};

}  // namespace dp::worker
