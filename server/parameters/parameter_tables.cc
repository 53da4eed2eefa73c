#include "server/parameters/parameter_tables.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::server {

ParameterTables::ParameterTables(ParameterStore& store, TaskThreads& tasks,
                                 uint64_t memory_bytes_max)
    : store_(store), tasks_(tasks), memory_(memory_bytes_max) {}

absl::StatusOr<std::shared_ptr<TableThread>> ParameterTables::Open(JobId job) {
  MutexLock lock(mu_);
  if (stopped_) return absl::UnavailableError("the coordinator is stopping");
  const auto known = tables_.find(job);
  if (known != tables_.end()) return known->second;
  if (tables_.size() >= kTablesMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "job ", job.ToString(), ": ", kTablesMax, " jobs have tables already, which is the limit"));
  }
  auto table = std::make_shared<TableThread>(job, store_, memory_, tasks_);
  tables_.emplace(job, table);
  return table;
}

absl::StatusOr<std::shared_ptr<TableThread>> ParameterTables::Find(JobId job) {
  MutexLock lock(mu_);
  if (stopped_) return absl::UnavailableError("the coordinator is stopping");
  const auto known = tables_.find(job);
  if (known != tables_.end()) return known->second;
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", job.ToString(), ": its table is not open; open it, and push again from there"));
}

std::vector<JobId> ParameterTables::jobs() const {
  MutexLock lock(mu_);
  std::vector<JobId> jobs;
  for (const auto& [job, table] : tables_) jobs.push_back(job);
  return jobs;
}

void ParameterTables::Close(JobId job, bool publish) {
  std::shared_ptr<TableThread> table;
  {
    MutexLock lock(mu_);
    const auto known = tables_.find(job);
    if (known == tables_.end()) return;
    table = std::move(known->second);
    tables_.erase(known);
  }
  table->Stop(publish);
}

void ParameterTables::Stop() {
  std::map<JobId, std::shared_ptr<TableThread>> tables;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    tables.swap(tables_);
  }
  for (const auto& [job, table] : tables) table->Stop(/*publish=*/false);
}

}  // namespace dp::server
