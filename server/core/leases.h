#pragma once

#include "absl/time/time.h"

namespace dp::core {

class Coordinator;
class Liveness;

// Offers each worker the shortest lease that the jobs with ranks on it ask for, by their
// detectWithin; the longest to those without. Whoever the machine no longer lists, `liveness`
// drops, so that it is bounded as the machine is. Soft state follows from the machine's: nothing
// here is journalled.
void OfferLeases(const Coordinator& coordinator, Liveness& liveness, absl::Time now);

}  // namespace dp::core
