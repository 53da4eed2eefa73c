#include "client/dpctl/job_state.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/signal_name.h"

namespace dp::ctl {
namespace {

std::string Stripped(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return std::string(name);
}

}  // namespace

std::string NameOf(v1::JobState state) { return Stripped(v1::JobState_Name(state), "JOB_STATE_"); }

std::string NameOf(v1::RankState state) {
  return Stripped(v1::RankState_Name(state), "RANK_STATE_");
}

std::string NameOf(v1::WorkerState state) {
  return Stripped(v1::WorkerState_Name(state), "WORKER_STATE_");
}

std::string NameOf(v1::PendingCode code) {
  return absl::AsciiStrToLower(Stripped(v1::PendingCode_Name(code), "PENDING_CODE_"));
}

std::string NameOf(v1::FailureClass failure_class) {
  if (failure_class == v1::FAILURE_CLASS_UNSPECIFIED) return "";
  return absl::AsciiStrToLower(Stripped(v1::FailureClass_Name(failure_class), "FAILURE_CLASS_"));
}

std::string NameOf(v1::LogStream stream) {
  return absl::AsciiStrToLower(Stripped(v1::LogStream_Name(stream), "LOG_STREAM_"));
}

std::string ExitText(const v1::Exit& exit) {
  switch (exit.how_case()) {
    case v1::Exit::kCode:
      return absl::StrCat("code ", exit.code());
    case v1::Exit::kSignal:
      return SignalText(exit.signal());
    case v1::Exit::HOW_NOT_SET:
      break;
  }
  return "";
}

bool Finished(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

}  // namespace dp::ctl
