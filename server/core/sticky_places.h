#pragma once

#include <optional>
#include <vector>

#include "server/core/command.h"
#include "server/core/placement.h"

namespace dp::core {

// The slots of a job that ran before, by rank, as near to `previous` as may be. The ranks of a
// worker that has room for all of them stay there, on their old slots where those are free; those
// of any other worker move together to the tightest worker that has none of the job. None where
// that cannot be: then the job is to be placed afresh. Ranks of one worker stay adjacent. Pure.
std::optional<std::vector<PlaceJob::Slot>> StickyPlaces(
    const std::vector<WorkerSlots>& workers, const std::vector<PlaceJob::Slot>& previous);

}  // namespace dp::core
