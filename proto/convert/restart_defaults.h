#pragma once

#include "absl/time/time.h"
#include "dp/v1/job_spec.pb.h"

// Defaults for a job file without `restart` (docs/failures.md). dpctl shows them; the coordinator
// records them. Pure.

namespace dp {

inline constexpr int kInfraRestarts = 10;
inline constexpr int kHangRestarts = 3;
inline constexpr int kStartupRestarts = 3;
inline constexpr absl::Duration kRestartWindow = absl::Hours(1);

// Sets the fields of spec.restart that are not set. If only one of restart.max_restarts and
// command.max_restarts is set, copies it to the other.
void FillRestart(v1::JobSpec& spec);

}  // namespace dp
