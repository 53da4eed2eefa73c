#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

namespace dp::core {

class Coordinator;

// The jobs whose time has come, one way or the other. Pure: the verdicts are commands.
struct DueJobs {
  std::vector<ExpireJob> expire;  // have held their slots for as long as they may
  std::vector<ForgetJob> forget;  // have been over for as long as they wanted to stay on record
  absl::Time next_at = absl::InfiniteFuture();  // when the next one's comes, as things stand
};

DueJobs FindDueJobs(const Coordinator& coordinator, absl::Time now);

}  // namespace dp::core
