#include "worker/agent/coordinator_trouble.h"

#include <string>
#include <utility>

#include "base/program/log.h"
#include "client/retry_policy.h"

namespace dp::worker {

void CoordinatorTrouble::Failed(const absl::Status& status) {
  if (!client::IsRateLimited(status)) {
    unreachable_.Failed(status);
    return;
  }
  // Each such error names another time to wait.
  if (std::exchange(limited_, true)) return;
  Log(Severity::kWarning, "rate_limited", {{"reason", std::string(status.message())}});
}

void CoordinatorTrouble::Worked() {
  unreachable_.Worked();
  if (std::exchange(limited_, false)) Log(Severity::kInfo, "rate_limited_over");
}

}  // namespace dp::worker
