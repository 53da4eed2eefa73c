#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"

namespace dp {

// Logs each reason of a failure once, not at every attempt. Also logs the first success after
// failures; from then on every reason is new. Not thread-safe.
class RepeatedReason {
 public:
  // `event` names the trouble, for example logs_not_shipped.
  explicit RepeatedReason(std::string event);

  // Returns true if the reason was new and was logged.
  bool Failed(const absl::Status& status);
  void Worked();

 private:
  const std::string event_;
  std::set<std::string> reasons_;  // logged since the last success
};

}  // namespace dp
