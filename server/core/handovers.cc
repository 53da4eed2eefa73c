#include "server/core/handovers.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "server/core/coordinator.h"

namespace dp::core {
namespace {

bool CanBeAsked(const Job& job) {
  const bool runs = job.state == JobState::kStarting || job.state == JobState::kRunning;
  return runs && job.handover.empty();
}

}  // namespace

std::vector<AskHandover> FindHandovers(const Coordinator& coordinator) {
  std::vector<AskHandover> asked;
  std::set<JobId> seen;
  for (const Worker* worker : coordinator.workers()) {
    if (!worker->drain.has_value() || !worker->drain->hand_over) continue;
    for (const JobId id : worker->jobs()) {
      if (!CanBeAsked(*coordinator.job(id)) || !seen.insert(id).second) continue;
      asked.push_back(
          {id, absl::StrCat("worker ", worker->name, " is drained: ", worker->drain->reason)});
    }
  }
  return asked;
}

}  // namespace dp::core
