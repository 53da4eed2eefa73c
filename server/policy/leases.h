#pragma once

#include "absl/time/time.h"

namespace dp::core {

class Coordinator;
class Liveness;

// Offers each worker the shortest lease that the jobs with ranks on it need, by their detectWithin.
// Workers without such jobs get the longest. Drops from `liveness` the workers that the machine no
// longer lists, so that it is bounded as the machine is. Leases are soft state that follows from
// the machine's state: nothing here is journalled.
void OfferLeases(const Coordinator& coordinator, Liveness& liveness, absl::Time now);

}  // namespace dp::core
