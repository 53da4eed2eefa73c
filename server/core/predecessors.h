#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

namespace dp::core {

class Coordinator;
class Liveness;

// The lives that end because this daemon registers:
// - those that it has proven dead (`replaces`), under whatever name, at once;
// - the life that has its name, if that life is silent beyond its lease, although verdicts on most
//   workers may be held back: a new daemon under the name is evidence about this one worker.
// Pure; call it before the registration is applied, which a live holder of the name would refuse.
std::vector<LoseWorker> PredecessorsOf(const RegisterWorker& registered,
                                       const Coordinator& coordinator, const Liveness& liveness,
                                       absl::Time now);

}  // namespace dp::core
