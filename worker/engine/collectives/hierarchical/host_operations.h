#pragma once

#include "absl/status/status.h"
#include "worker/engine/collectives/collective.h"
#include "worker/engine/collectives/hierarchical/host_steps.h"

namespace dp::engine {

// Whether a call of this shape is too small for two levels: Gloo alone is as fast. The same on
// every rank.
bool IsForOneLevel(const CallShape& shape, int ranks);

// Runs a collective over both levels. After an error, nothing else may be
// run. Nobody else than this rank writes to the caller's memory. Errors: those of the groups.
absl::Status RunOverHosts(HostRank& self, HostSteps& steps, const Collective& call);

}  // namespace dp::engine
