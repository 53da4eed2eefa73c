#pragma once

#include <vector>

#include "base/id.h"
#include "server/core/reservation.h"
#include "server/core/slot_supply.h"

namespace dp::core {

// The running jobs that have to leave so that the head of the queue, of that priority, can start:
// preemptible ones of lower priority, the lowest first, of the same one those that began last, and
// none that the head does not need. Empty where it can start once those have gone that are leaving
// already; and where it could not even if all that may be asked went: nobody leaves in vain. Pure.
std::vector<JobId> ChooseVictims(const SlotSupply& supply, const std::vector<RunningJob>& running,
                                 const SlotNeed& head, int priority);

}  // namespace dp::core
