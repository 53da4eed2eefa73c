#pragma once

#include "server/core/state.h"

namespace dp::reload {

// The state as the coordinator's next run would load it from a snapshot. Tests call this between
// commands to show that a snapshot loses nothing. A plain copy in builds without protobuf.
core::State Reload(const core::State& state);

}  // namespace dp::reload
