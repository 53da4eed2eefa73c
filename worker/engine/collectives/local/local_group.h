#pragma once

#include <memory>
#include <vector>

#include "worker/engine/collectives/group.h"

namespace dp::engine {

// The groups of `size` ranks that are threads of one process. Element r is rank r's group and may
// be used and destroyed on a thread of its own. There are no staging copies: each rank reduces its
// slice straight from and into the memory of all.
std::vector<std::unique_ptr<Group>> MakeLocalGroups(int size, const GroupOptions& options = {});

}  // namespace dp::engine
