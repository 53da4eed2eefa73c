#pragma once

#include <memory>
#include <vector>

#include "worker/engine/collectives/group.h"

namespace dp::engine {

// The groups of `size` ranks that are threads of one process: element r is rank r's, and may be
// used and destroyed on another thread than the rest. No copies: each rank reduces its slice
// straight from and into the memory of all.
std::vector<std::unique_ptr<Group>> MakeLocalGroups(int size, const GroupOptions& options = {});

}  // namespace dp::engine
