#pragma once

#include "absl/time/time.h"
#include "server/policy/placement.h"

namespace dp::core {

// The input of a plan, from the state of the coordinator. Pure.
PlacementInput InputOf(const Coordinator& coordinator, const PlacementPolicy& policy,
                       absl::Time now, const Job* also);

}  // namespace dp::core
