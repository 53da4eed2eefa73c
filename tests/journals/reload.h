#pragma once

#include "server/core/state.h"

namespace dp::reload {

// The state as the coordinator's next life would find it in a snapshot. Tests that call it between
// commands show that a snapshot forgets nothing. A plain copy where there is no protobuf.
core::State Reload(const core::State& state);

}  // namespace dp::reload
