#include "server/core/handovers.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/coordinator.h"

namespace dp::core {
namespace {

bool CanBeAsked(const Job& job) {
  const bool runs = job.state == JobState::kStarting || job.state == JobState::kRunning;
  return runs && job.handover.empty() && job.spec.restart.has_value();
}

Action Ask(const Job& job, const Worker& worker) {
  std::string why = absl::StrCat("worker ", worker.name, " is drained: ", worker.drain->reason);
  if (!job.spec.joins_by_running) return AskHandover{job.id, std::move(why)};
  return RequeueJob{job.id, job.generation, std::move(why)};
}

}  // namespace

std::vector<Action> FindHandovers(const Coordinator& coordinator) {
  std::vector<Action> asked;
  std::set<JobId> seen;
  for (const Worker* worker : coordinator.workers()) {
    if (!worker->drain.has_value() || !worker->drain->hand_over) continue;
    for (const JobId id : worker->jobs()) {
      const Job& job = *coordinator.job(id);
      if (CanBeAsked(job) && seen.insert(id).second) asked.push_back(Ask(job, *worker));
    }
  }
  return asked;
}

}  // namespace dp::core
