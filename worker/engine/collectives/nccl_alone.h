#pragma once

#include <memory>

#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl_api.h"
#include "worker/engine/collectives/nccl_group.h"

namespace dp::engine {

// A group of one rank over memory of a device: every reduction and broadcast is there already. Of
// `api`, which outlives it, only Copy is used.
std::unique_ptr<Group> MakeNcclAlone(NcclApi& api, const NcclOptions& options);

}  // namespace dp::engine
