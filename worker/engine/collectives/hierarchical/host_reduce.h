#pragma once

#include "absl/status/status.h"
#include "worker/engine/collectives/collective.h"
#include "worker/engine/collectives/hierarchical/host_steps.h"

namespace dp::engine {

// Runs a collective that reduces, whose input is not empty.
absl::Status ReduceOverHosts(HostRank& self, HostSteps& steps, const Collective& call);

}  // namespace dp::engine
