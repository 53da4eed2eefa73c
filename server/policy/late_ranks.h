#pragma once

#include <map>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/command.h"

namespace dp::core {

class Coordinator;
class Liveness;
struct Job;

// Finds generations whose processes all run, but whose ranks do not all join. No collective waits
// for a rank that hangs before it has joined, so no peer accuses it. Soft state: only the verdicts
// are journalled, so a restart of the coordinator restarts each wait. Not thread-safe; owned by the
// driver; takes the time as an argument.
class LateRanks {
 public:
  // One rank of each generation whose time to join has expired: the lowest that runs and has not
  // joined. The time counts from when the last process was seen to run. It starts anew when the
  // coordinator itself has stalled, or while the worker of a missing rank is silent. The ranks may
  // have waited for these.
  std::vector<GiveUpRank> Overdue(const Coordinator& coordinator, const Liveness& liveness,
                                  absl::Time now);
  // When the next time expires, as of the last Overdue.
  absl::Time next_at() const { return next_at_; }

 private:
  struct Wait {
    Generation generation;
    absl::Time since;
  };
  Wait WaitOf(const Job& job, const Liveness& liveness, absl::Time now) const;

  std::map<JobId, Wait> waits_;
  absl::Time next_at_ = absl::InfiniteFuture();
};

}  // namespace dp::core
