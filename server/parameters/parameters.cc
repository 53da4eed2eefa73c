#include "server/parameters/parameters.h"

#include <string>

#include "base/program/log.h"

namespace dp::server {

absl::Status Parameters::Drop(std::vector<JobId> jobs) {
  return writers.Submit([this, jobs = std::move(jobs)] {
    for (const JobId job : jobs) {
      tables.Close(job, /*publish=*/false);
      const absl::Status removed = store.Drop(job);
      if (removed.ok()) continue;
      Log(Severity::kWarning, "parameters_not_removed",
          {{"job", job.value()}, {"error", std::string(removed.message())}});
    }
  });
}

absl::Status Parameters::Close(std::vector<JobId> jobs) {
  if (jobs.empty()) return absl::OkStatus();
  return writers.Submit([this, jobs = std::move(jobs)] {
    for (const JobId job : jobs) tables.Close(job, /*publish=*/true);
  });
}

}  // namespace dp::server
