#pragma once

#include "absl/time/time.h"
#include "server/core/placement.h"

namespace dp::core {

// What a plan is made of, as the coordinator stands. Pure.
PlacementInput InputOf(const Coordinator& coordinator, const PlacementPolicy& policy,
                       absl::Time now, const Job* also);

}  // namespace dp::core
