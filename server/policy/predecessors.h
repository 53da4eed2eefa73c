#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

namespace dp::core {

class Coordinator;
class Liveness;

// The incarnations that are lost because this daemon registers:
// - those that the daemon has proven dead (`replaces`), under whatever name, at once;
// - the holder of its name, if silent beyond its lease, even while verdicts are held back. A new
//   daemon under the name is evidence about this one worker.
// Pure. Call it before the registration is applied, which a live holder of the name would prevent.
std::vector<LoseWorker> PredecessorsOf(const RegisterWorker& registered,
                                       const Coordinator& coordinator, const Liveness& liveness,
                                       absl::Time now);

// The same of a daemon that joins with a new credential under a name: it registers only once it has
// one. Its token is no proof that it is the only one of its host, so a live holder stays.
std::optional<LoseWorker> PredecessorOf(const UseToken& joins, const Coordinator& coordinator,
                                        const Liveness& liveness, absl::Time now);

}  // namespace dp::core
