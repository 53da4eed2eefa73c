#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

namespace dp::core {

class Coordinator;

// The jobs whose time has come, one way or the other. Pure: the verdicts are commands.
struct DueJobs {
  std::vector<AskHandover> ask;     // are to save before they have to be over
  std::vector<ExpireJob> expire;    // have held their slots for as long as they may
  std::vector<RequeueJob> requeue;  // were to leave by now, and have not
  std::vector<ForgetJob> forget;    // have been over for as long as they wanted to stay on record
  absl::Time next_at =
      absl::InfiniteFuture();  // when the first one's comes; past: it has, and stands above
};

DueJobs FindDueJobs(const Coordinator& coordinator, absl::Time now);

// How long before its deadline a job that can save is asked to: its grace, and at most half of its
// maxDuration.
absl::Duration SavesBefore(const JobSpec& spec);

}  // namespace dp::core
