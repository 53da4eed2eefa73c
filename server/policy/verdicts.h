#pragma once

#include <functional>

#include "absl/time/time.h"
#include "server/core/coordinator.h"
#include "server/policy/late_ranks.h"
#include "server/policy/liveness.h"
#include "server/policy/placement.h"

namespace dp::core {

// How soon the policies must look at the effects of a command. Ordered: a later value wins.
enum class Look { kNever, kSoon, kAtOnce };
// kSoon: a rank has started or joined, and its world still forms. Only LateRanks reacts to that,
// and it counts in seconds. A look at all jobs and workers after each of 10,000 joins would take
// longer than the joins.
Look LookAfter(const Action& action, const Outcome& outcome);

// Runs the policies about ranks and jobs one after another. Hands each verdict to `apply`, which
// applies it to `coordinator` before it returns, so each policy sees the effects of earlier
// verdicts. The order: ranks and jobs whose time is up, jobs on drained workers, restarts,
// placements. The caller handles lost workers before (liveness.h). Afterwards it makes room:
// AskToLeave with the returned `leave`. No clock, no I/O.
Placement ApplyVerdicts(const Coordinator& coordinator, const Liveness& liveness,
                        LateRanks& late_ranks, const PlacementPolicy& policy, absl::Time now,
                        const std::function<void(Action)>& apply);

}  // namespace dp::core
