#include "server/core/world.h"

#include "absl/strings/str_cat.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {

World WorldOf(const Job& job, MemberTable table) {
  World world;
  world.generation = job.generation;
  world.state = job.world.state();
  world.size = job.world_size();
  if (job.handover.has_value()) world.handover = job.handover->reason;
  if (table == MemberTable::kWhole) {
    for (const int rank : job.world.members()) world.members.push_back(MemberOf(job, rank));
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

Member MemberOf(const Job& job, int rank) {
  const Rank& r = job.ranks.at(rank);
  return {rank, r.worker, r.host, r.address};
}

bool ConcernsItsRanks(const Job& job, Generation generation) {
  return job.generation != generation || job.world.state() != WorldState::kForming;
}

}  // namespace dp::core
