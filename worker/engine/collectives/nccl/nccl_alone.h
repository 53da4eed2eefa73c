#pragma once

#include <memory>

#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_group.h"

namespace dp::engine {

// A group of one rank over device memory: reductions and broadcasts have nothing to do. Uses only
// Copy of `api`, which outlives the group.
std::unique_ptr<Group> MakeNcclAlone(NcclApi& api, const NcclOptions& options);

}  // namespace dp::engine
