#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/id.h"
#include "base/mutex.h"
#include "server/parameters/table_thread.h"

namespace dp::server {

// The tables of all jobs, each with its thread. Thread-safe.
class ParameterTables {
 public:
  // Each has a thread.
  static constexpr size_t kTablesMax = 1'000;

  // `memory_bytes_max`: of all tables. Store and tasks outlive this.
  ParameterTables(ParameterStore& store, TaskThreads& tasks, uint64_t memory_bytes_max);

  // The table of a job; a new one if it has none. Errors: ResourceExhausted; Unavailable stopped.
  absl::StatusOr<std::shared_ptr<TableThread>> Open(JobId job) DP_EXCLUDES(mu_);
  // Errors: FailedPrecondition the job has no open table.
  absl::StatusOr<std::shared_ptr<TableThread>> Find(JobId job) DP_EXCLUDES(mu_);
  std::vector<JobId> jobs() const DP_EXCLUDES(mu_);
  // Ends the table of a job that is over. `publish`: after its last state was written. Blocking.
  void Close(JobId job, bool publish) DP_EXCLUDES(mu_);
  // Ends all tables, whose ranks hear Unavailable. Blocking; idempotent.
  void Stop() DP_EXCLUDES(mu_);

  const ParameterMemory& memory() const { return memory_; }

 private:
  ParameterStore& store_;
  TaskThreads& tasks_;
  ParameterMemory memory_;

  mutable Mutex mu_;
  std::map<JobId, std::shared_ptr<TableThread>> tables_ DP_GUARDED_BY(mu_);
  bool stopped_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::server
