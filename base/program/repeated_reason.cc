#include "base/program/repeated_reason.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"

namespace dp {
namespace {

// Bounds reasons that never repeat, for example those with a counter.
constexpr size_t kReasonsMax = 8;

}  // namespace

RepeatedReason::RepeatedReason(std::string event) : event_(std::move(event)) {}

bool RepeatedReason::Failed(const absl::Status& status) {
  if (reasons_.size() >= kReasonsMax) return false;
  // Payloads are for programs.
  const auto [reason, is_new] =
      reasons_.insert(status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  if (is_new) Log(Severity::kWarning, event_, {{"reason", *reason}});
  return is_new;
}

void RepeatedReason::Worked() {
  if (reasons_.empty()) return;
  reasons_.clear();
  Log(Severity::kInfo, absl::StrCat(event_, "_over"));
}

}  // namespace dp
