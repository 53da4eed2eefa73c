#include "server/parameters/parameters.h"

#include <string>

#include "base/program/log.h"

namespace dp::server {

absl::Status Parameters::Drop(std::vector<JobId> jobs) {
  return threads.Submit([this, jobs = std::move(jobs)] {
    for (const JobId job : jobs) {
      tables.Close(job);
      const absl::Status removed = store.Remove({.job = job}, /*version=*/0).status();
      if (removed.ok() || absl::IsNotFound(removed)) continue;
      Log(Severity::kWarning, "parameters_not_removed",
          {{"job", job.value()}, {"error", std::string(removed.message())}});
    }
  });
}

absl::Status Parameters::Close(std::vector<JobId> jobs) {
  if (jobs.empty()) return absl::OkStatus();
  return threads.Submit([this, jobs = std::move(jobs)] {
    for (const JobId job : jobs) tables.Close(job);
  });
}

}  // namespace dp::server
