#pragma once

#include "absl/time/time.h"
#include "dp/v1/job_spec.pb.h"

// What a job file that says nothing of restarts gets (docs/failures.md), for dpctl, which shows it,
// and the coordinator, which records it. Pure.

namespace dp {

inline constexpr int kInfraRestarts = 10;
inline constexpr int kHangRestarts = 3;
inline constexpr int kStartupRestarts = 3;
inline constexpr absl::Duration kRestartWindow = absl::Hours(1);

// Fills in spec.restart, and makes it agree with command.max_restarts where one of them is not
// given.
void FillRestart(v1::JobSpec& spec);

}  // namespace dp
