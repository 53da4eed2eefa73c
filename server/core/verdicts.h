#pragma once

#include <functional>

#include "absl/time/time.h"
#include "server/core/coordinator.h"
#include "server/core/late_ranks.h"
#include "server/core/liveness.h"
#include "server/core/placement.h"

namespace dp::core {

// How soon the policies must look at the change of a command. Ordered: a later one wins.
enum class Look { kNever, kSoon, kAtOnce };
// kSoon: a rank has started or joined, and its world still forms. Of the policies only LateRanks
// asks for that, and it counts in seconds; a look at all jobs and workers for each of 10,000 joins
// would take longer than the joins.
Look LookAfter(const Action& action, const Outcome& outcome);

// Asks the policies about ranks and jobs, one after another, and hands each verdict to `apply`,
// which applies it to `coordinator` before it returns: each is decided on what those before it have
// left. First whose time is over, of ranks and of jobs, then who leaves a drained worker, then who
// gets another generation, then who is placed. Workers that are lost come before all that
// (liveness.h), and who makes room after it: AskToLeave with `leave` of what is returned. No clock,
// no I/O.
Placement ApplyVerdicts(const Coordinator& coordinator, const Liveness& liveness,
                        LateRanks& late_ranks, const PlacementPolicy& policy, absl::Time now,
                        const std::function<void(Action)>& apply);

}  // namespace dp::core
