#include "server/core/job.h"

#include "absl/strings/str_cat.h"

namespace dp::core {
namespace {

// The names that everybody knows; strsignal would depend on the locale.
absl::string_view SignalName(int signal) {
  switch (signal) {
    case 1:
      return "SIGHUP";
    case 2:
      return "SIGINT";
    case 3:
      return "SIGQUIT";
    case 4:
      return "SIGILL";
    case 6:
      return "SIGABRT";
    case 7:
      return "SIGBUS";
    case 8:
      return "SIGFPE";
    case 9:
      return "SIGKILL";
    case 11:
      return "SIGSEGV";
    case 13:
      return "SIGPIPE";
    case 15:
      return "SIGTERM";
    case 24:
      return "SIGXCPU";
    default:
      return "";
  }
}

}  // namespace

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
  }
  return "";
}

std::string Describe(const Exit& exit) {
  if (exit.how == Exit::How::kCode) return absl::StrCat("exit code ", exit.number);
  const absl::string_view name = SignalName(exit.number);
  return name.empty() ? absl::StrCat("signal ", exit.number)
                      : absl::StrCat("signal ", exit.number, " (", name, ")");
}

}  // namespace dp::core
