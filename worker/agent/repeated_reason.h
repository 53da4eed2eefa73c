#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"

namespace dp::worker {

// Logs why something does not work once for each reason, not at every try; and once when it works
// again, from when on every reason is new. Not thread-safe.
class RepeatedReason {
 public:
  // `event` names the trouble, as logs_not_shipped.
  explicit RepeatedReason(std::string event);

  // Returns whether the reason was new and is logged now.
  bool Failed(const absl::Status& status);
  void Worked();

 private:
  const std::string event_;
  std::set<std::string> reasons_;  // logged since it last worked
};

}  // namespace dp::worker
