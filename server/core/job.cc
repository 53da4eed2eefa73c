#include "server/core/job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/signal_name.h"

namespace dp::core {

absl::string_view Name(JobState state) {
  switch (state) {
    case JobState::kPending:
      return "pending";
    case JobState::kStarting:
      return "starting";
    case JobState::kRunning:
      return "running";
    case JobState::kStopping:
      return "stopping";
    case JobState::kSucceeded:
      return "succeeded";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "";
}

absl::string_view Name(RankState state) {
  switch (state) {
    case RankState::kAssigned:
      return "assigned";
    case RankState::kStarted:
      return "started";
    case RankState::kJoined:
      return "joined";
    case RankState::kExited:
      return "exited";
    case RankState::kReleased:
      return "released";
    case RankState::kLost:
      return "lost";
  }
  return "";
}

absl::string_view Name(FailureClass failure_class) {
  switch (failure_class) {
    case FailureClass::kUser:
      return "user";
    case FailureClass::kInfra:
      return "infra";
    case FailureClass::kStartup:
      return "startup";
    case FailureClass::kCancel:
      return "cancel";
    case FailureClass::kHang:
      return "hang";
    case FailureClass::kOom:
      return "oom";
    case FailureClass::kPreempt:
      return "preempt";
    case FailureClass::kTimeout:
      return "timeout";
  }
  return "";
}

bool Job::live() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.live(); });
}

bool Job::may_retry() const {
  return spec.restart.has_value() && failure.has_value() && !no_retry &&
         failure->failure_class != FailureClass::kCancel &&
         failure->failure_class != FailureClass::kTimeout;
}

std::string Describe(const Exit& exit) {
  if (exit.how == Exit::How::kCode) return absl::StrCat("exit code ", exit.number);
  return SignalText(exit.number);
}

}  // namespace dp::core
