#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/engine/collectives/collective.h"
#include "worker/engine/collectives/gloo/gloo_mesh.h"
#include "worker/engine/collectives/gloo/gloo_transfers.h"

namespace dp::engine {

// Runs a collective that reduces over the mesh (docs/collectives.md). Its input is not empty. Uses
// `slot` and `slot + 1`, and grows `scratch` as needed. Calls `ready` after adding lanes and before
// posting transfers. Returns false when it had to end early.
bool GlooReduce(const GlooMesh& mesh, GlooTransfers& transfers, uint64_t slot,
                const Collective& call, std::vector<uint8_t>& scratch,
                const std::function<bool()>& ready);

}  // namespace dp::engine
