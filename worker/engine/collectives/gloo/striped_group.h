#pragma once

#include <memory>
#include <vector>

#include "worker/engine/collectives/group.h"

namespace dp::engine {

// One group over several, of the same ranks in the same order: a group for each network interface.
// Large operations are split over all of them; small ones take turns. The operations still run one
// at a time.
std::unique_ptr<Group> MakeStriped(std::vector<std::unique_ptr<Group>> stripes,
                                   const GroupOptions& options);

}  // namespace dp::engine
