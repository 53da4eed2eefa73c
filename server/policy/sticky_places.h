#pragma once

#include <optional>
#include <vector>

#include "server/core/command.h"
#include "server/policy/placement.h"

namespace dp::core {

// The slots of a restarted job, by rank, as near to `previous` as possible. The ranks of a worker
// that has room for all of them stay there, in their old slots if these are free. The ranks of any
// other worker move together, to the tightest worker without ranks of the job. None if that fails:
// the job must be placed afresh. Ranks of one worker stay adjacent. Pure.
std::optional<std::vector<PlaceJob::Slot>> StickyPlaces(
    const std::vector<WorkerSlots>& workers, const std::vector<PlaceJob::Slot>& previous);

}  // namespace dp::core
