#include "server/core/generation_end.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::core {

std::string Whereabouts(const Job& job, int rank) {
  const Rank& r = job.ranks.at(rank);
  return absl::StrCat("rank ", rank, " on worker ", r.worker, " (host ", r.host, ")");
}

Failure FailureOf(const Job& job, int rank, FailureClass failure_class, std::string message) {
  Failure failure;
  failure.failure_class = failure_class;
  failure.rank = rank;
  failure.worker = job.ranks.at(rank).worker;
  failure.host = job.ranks.at(rank).host;
  failure.exit = job.ranks.at(rank).exit;
  failure.message = std::move(message);
  return failure;
}

void EndGeneration(Job& job, Failure failure, absl::Time at) {
  if (job.failure.has_value() || job.terminal()) return;
  failure.at = at;
  failure.generation = job.generation;
  failure.running_at = job.running_at;
  failure.before_first_step = job.tells_first_step && !job.first_step_at.has_value();
  job.world.Close(failure.message);
  job.failure = std::move(failure);
  job.state = JobState::kStopping;
}

}  // namespace dp::core
