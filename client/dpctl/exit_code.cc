#include "client/dpctl/exit_code.h"

#include "base/check.h"
#include "client/dpctl/job_state.h"

namespace dp::ctl {
namespace {

constexpr int kSignalBase = 128;

// A failure of the program itself keeps its exit code. A program that "failed" with 0 was ended by
// something else.
int ExitCodeOfFailure(const v1::Failure& failure) {
  if (failure.failure_class() != v1::FAILURE_CLASS_USER) return kInfrastructure;
  if (failure.exit().has_signal()) return kSignalBase + failure.exit().signal();
  return failure.exit().code() != 0 ? failure.exit().code() : kInfrastructure;
}

}  // namespace

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kSuccess;
    case absl::StatusCode::kInvalidArgument:
      return kUsage;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kUnreachable;
    default:
      return kFailed;
  }
}

absl::Status AsUsage(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::InvalidArgumentError(status.message()) : status;
}

int ExitCodeOf(const v1::Job& job) {
  DP_CHECK(Finished(job.state()));
  if (job.state() == v1::JOB_STATE_SUCCEEDED) return kSuccess;
  if (job.state() == v1::JOB_STATE_CANCELLED) return kCancelled;
  return ExitCodeOfFailure(job.failure());
}

}  // namespace dp::ctl
