#pragma once

#include <vector>

#include "base/id.h"
#include "server/policy/reservation.h"
#include "server/policy/slot_supply.h"

namespace dp::core {

// The running jobs that have to leave so that the head of the queue, of `priority`, can start. They
// are preemptible and of lower priority. The lowest go first, and among equals the latest started.
// Jobs that the head does not need stay. Empty if the head can start once the jobs that are already
// leaving have gone. Empty too if it could not start even without all candidates: nobody leaves in
// vain. Pure.
std::vector<JobId> ChooseVictims(const SlotSupply& supply, const std::vector<RunningJob>& running,
                                 const SlotNeed& head, int priority);

}  // namespace dp::core
