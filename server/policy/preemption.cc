#include "server/policy/preemption.h"

#include <algorithm>
#include <tuple>

namespace dp::core {
namespace {

using JobList = std::vector<const RunningJob*>;

void GiveUp(const RunningJob& job, SlotSupply& supply) {
  supply.Give(job.slots);
  supply.Give(job.kept);
}

bool Fits(const SlotNeed& head, const SlotSupply& supply) {
  return SlotSupply::Fits(head, supply.CountFor(head));
}

bool FitsWithout(const SlotNeed& head, SlotSupply supply, const JobList& gone) {
  for (const RunningJob* job : gone) GiveUp(*job, supply);
  return Fits(head, supply);
}

// The supply once the leaving jobs have gone. `for_good`: without the slots of jobs that come back
// before the head has its turn.
SlotSupply WhenTheyAreGone(SlotSupply supply, const std::vector<RunningJob>& running, int priority,
                           bool for_good) {
  for (const RunningJob& job : running) {
    const bool comes_first = job.returns && job.priority >= priority;
    if (job.leaving && !(for_good && comes_first)) GiveUp(job, supply);
  }
  return supply;
}

// The jobs that may be asked to leave, in the order to ask them.
JobList MayBeAsked(const SlotSupply& supply, const std::vector<RunningJob>& running,
                   const SlotNeed& head, int priority) {
  JobList candidates;
  for (const RunningJob& job : running) {
    if (!job.preemptible || job.leaving || job.priority >= priority) continue;
    const bool of_use =
        std::any_of(job.slots.begin(), job.slots.end(),
                    [&](const PlaceJob::Slot& slot) { return supply.CanUse(head, slot); });
    if (of_use) candidates.push_back(&job);
  }
  std::sort(candidates.begin(), candidates.end(), [](const RunningJob* a, const RunningJob* b) {
    return std::tuple(a->priority, b->since, b->id) < std::tuple(b->priority, a->since, a->id);
  });
  return candidates;
}

// The first candidates that together make room.
JobList FirstThatDo(const SlotNeed& head, SlotSupply supply, const JobList& candidates) {
  JobList chosen;
  for (const RunningJob* job : candidates) {
    GiveUp(*job, supply);
    chosen.push_back(job);
    if (Fits(head, supply)) break;
  }
  return chosen;
}

// Spares the jobs that the others make unnecessary, the most important first.
JobList Needed(const SlotNeed& head, const SlotSupply& supply, JobList chosen) {
  for (size_t i = chosen.size(); i-- > 0;) {
    JobList others = chosen;
    others.erase(others.begin() + static_cast<ptrdiff_t>(i));
    if (FitsWithout(head, supply, others)) chosen = std::move(others);
  }
  return chosen;
}

}  // namespace

std::vector<JobId> ChooseVictims(const SlotSupply& supply, const std::vector<RunningJob>& running,
                                 const SlotNeed& head, int priority) {
  if (Fits(head, WhenTheyAreGone(supply, running, priority, /*for_good=*/false))) return {};
  const SlotSupply base = WhenTheyAreGone(supply, running, priority, /*for_good=*/true);
  const JobList candidates = MayBeAsked(supply, running, head, priority);
  if (!FitsWithout(head, base, candidates)) return {};
  std::vector<JobId> victims;
  for (const RunningJob* job : Needed(head, base, FirstThatDo(head, base, candidates))) {
    victims.push_back(job->id);
  }
  return victims;
}

}  // namespace dp::core
