#include "server/core/world.h"

#include "absl/strings/str_cat.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {

World WorldOf(const Job& job) {
  World world;
  world.generation = job.generation;
  world.state = job.world.state();
  world.size = job.world_size();
  if (job.handover.has_value()) world.handover = job.handover->reason;
  for (const int rank : job.world.members()) {
    const Rank& r = job.ranks.at(rank);
    world.members.push_back({rank, r.worker, r.host, r.address});
  }
  if (world.state == WorldState::kClosed) {
    world.reason = job.world.closing_reason();
  } else if (job.state == JobState::kPending) {
    world.reason = absl::StrCat("job ", job.id.ToString(), " waits for slots");
  } else {
    world.reason = WhyNotSealed(job);
  }
  return world;
}

}  // namespace dp::core
