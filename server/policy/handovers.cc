#include "server/policy/handovers.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/coordinator.h"
#include "server/policy/placement.h"

namespace dp::core {
namespace {

bool CanBeAsked(const Job& job) {
  const bool runs = job.state == JobState::kStarting || job.state == JobState::kRunning;
  return runs && !job.handover.has_value() && job.spec.restart.has_value();
}

Action Ask(const Job& job, const Departure& departure, absl::Time now) {
  if (job.spec.joins_by_running) {
    return RequeueJob{job.id, job.generation, departure.reason, departure.preempted_by};
  }
  const bool waited_for = departure.preempted_by.valid();
  return AskHandover{job.id, departure.reason, departure.cause, departure.preempted_by,
                     waited_for ? now + job.spec.grace : absl::InfiniteFuture()};
}

Action AskForDrain(const Job& job, const Worker& worker) {
  std::string why = absl::StrCat("worker ", worker.name, " is drained: ", worker.drain->reason);
  return Ask(job, {job.id, HandoverCause::kMove, std::move(why)}, absl::InfiniteFuture());
}

}  // namespace

std::vector<Action> FindHandovers(const Coordinator& coordinator) {
  std::vector<Action> asked;
  std::set<JobId> seen;
  for (const Worker* worker : coordinator.workers()) {
    if (!worker->drain.has_value() || !worker->drain->hand_over) continue;
    for (const JobId id : worker->jobs()) {
      const Job& job = *coordinator.job(id);
      if (CanBeAsked(job) && seen.insert(id).second) asked.push_back(AskForDrain(job, *worker));
    }
  }
  return asked;
}

std::vector<Action> AskToLeave(const Coordinator& coordinator,
                               const std::vector<Departure>& departures, absl::Time now) {
  std::vector<Action> asked;
  for (const Departure& departure : departures) {
    asked.push_back(Ask(*coordinator.job(departure.job), departure, now));
  }
  return asked;
}

}  // namespace dp::core
