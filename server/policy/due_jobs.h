#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

namespace dp::core {

class Coordinator;

// The jobs of which some time limit has expired. Pure: the verdicts are commands.
struct DueJobs {
  std::vector<AskHandover> ask;                 // must save, since their deadline is near
  std::vector<ExpireJob> expire;                // have reached their deadline
  std::vector<RequeueJob> requeue;              // had to leave by now, but have not
  std::vector<ForgetJob> forget;                // have been on record for their ttlAfterFinish
  absl::Time next_at = absl::InfiniteFuture();  // the next such time; past: a verdict stands above
};

DueJobs FindDueJobs(const Coordinator& coordinator, absl::Time now);

// How long before its deadline a job that can save is asked to: its grace, and at most half of its
// maxDuration.
absl::Duration SavesBefore(const JobSpec& spec);

}  // namespace dp::core
