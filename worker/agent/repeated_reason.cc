#include "worker/agent/repeated_reason.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace dp::worker {

RepeatedReason::RepeatedReason(std::string event) : event_(std::move(event)) {}

void RepeatedReason::Failed(const absl::Status& status) {
  const std::string reason = status.ToString();
  if (reason == reason_) return;
  reason_ = reason;
  Log(Severity::kWarning, event_, {{"reason", reason}});
}

void RepeatedReason::Worked() {
  if (reason_.empty()) return;
  reason_.clear();
  Log(Severity::kInfo, absl::StrCat(event_, "_over"));
}

}  // namespace dp::worker
