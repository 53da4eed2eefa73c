#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/collectives/gloo/gloo_mesh.h"
#include "worker/engine/collectives/gloo/gloo_transfers.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// Reduces `data` over the mesh in place, every element in rank order (docs/collectives.md). Uses
// `slot` and `slot + 1`, and grows `scratch` as needed. Calls `ready` after adding lanes and before
// posting transfers. Returns false when it had to end early.
bool OrderedAllReduce(const GlooMesh& mesh, GlooTransfers& transfers, uint64_t slot,
                      absl::Span<float> data, ReduceOp op, std::vector<float>& scratch,
                      const std::function<bool()>& ready);

}  // namespace dp::engine
