#pragma once

#include "absl/strings/string_view.h"

namespace dp::engine {

// The cores that this process may use: those of its affinity mask, at most as many as the quota of
// its cgroup pays for. At least 1.
int UsableCores();

// The cores that a cgroup's cpu.max ("200000 100000") pays for, rounded up. 0: no limit, or
// unreadable. Pure.
int CoresOfQuota(absl::string_view cpu_max);

}  // namespace dp::engine
