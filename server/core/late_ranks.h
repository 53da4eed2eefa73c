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

// Watches generations that have all their processes and do not come together: a rank that stands
// still before it has joined is waited for by no collective, so nobody accuses it. Soft state:
// nothing here is journalled, so after a restart of the coordinator each wait begins anew; its
// verdicts are. Not thread-safe; owned by the driver; takes the time as an argument.
class LateRanks {
 public:
  // One rank of each generation whose time to join has run out, the lowest that runs and has not.
  // The time counts from when the last process was seen to run; anew when the coordinator itself
  // stood still, or when the worker of a missing rank is silent: they may have waited for it.
  std::vector<GiveUpRank> Overdue(const Coordinator& coordinator, const Liveness& liveness,
                                  absl::Time now);
  // When the next time runs out, as of the last Overdue.
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
