#pragma once

#include "absl/status/status.h"
#include "dp/v1/jobs.pb.h"

// The exit codes of docs/dpctl.md, which are a contract. Pure.

namespace dp::ctl {

inline constexpr int kSuccess = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kInfrastructure = 100;
inline constexpr int kNotFinished = 101;
inline constexpr int kNotFound = 102;
inline constexpr int kCancelled = 103;
inline constexpr int kUnreachable = 104;

// The code for a command that ended with an error.
int ExitCodeOf(const absl::Status& status);

// A missing file of the command line is wrong usage, and not a missing job.
absl::Status AsUsage(const absl::Status& status);

// The code for a job that is over: its own code, 128 + its signal, or one of the above.
int ExitCodeOf(const v1::Job& job);

}  // namespace dp::ctl
