#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/job.h"

namespace dp::core {

// Errors: InvalidArgument.
absl::Status CheckPriority(int priority);

// NotFound; the message says how to list all jobs.
absl::Status UnknownJob(JobId id);
// FailedPrecondition: the record of a job that is over does not change any more.
absl::Status CheckNotOver(const Job& job);
// FailedPrecondition: the generation is not the current one of the job.
absl::Status CheckGeneration(const Job& job, Generation generation);
// InvalidArgument: a submission waits for a job that is not known.
absl::Status UnknownPredecessor(JobId id);
// NotFound: the caller means another job of this number, of a coordinator that has lost it.
absl::Status AnotherJob(const Job& job);

// All jobs on record. job_lifecycle.h moves them. Not thread-safe; owned by the Coordinator.
class JobRegistry {
 public:
  // More would come from a submitting loop, and the placement looks at all of them.
  static constexpr size_t kUnfinishedMax = 10'000;
  // Finished jobs that stay on record; the one that finished first is forgotten first.
  static constexpr size_t kFinishedMax = 10'000;
  static constexpr size_t kRequestIdBytesMax = 128;

  // All that the registry can be rebuilt from.
  struct Contents {
    uint64_t last_id = 0;
    std::map<JobId, Job> jobs;
    std::deque<JobId> finished;  // in the order in which they finished
  };

  JobRegistry() = default;
  explicit JobRegistry(Contents contents);

  struct Submitted {
    JobId id;
    bool made = false;  // false: an earlier command with this request id made it
  };

  // `revision` is the one that the command will make. A job may only wait for known jobs.
  // Errors: InvalidArgument; ResourceExhausted kUnfinishedMax.
  absl::StatusOr<Submitted> Submit(const SubmitJob& request, Revision revision, absl::Time at);
  // The job that Submit would make. Errors: as Submit.
  absl::StatusOr<Job> Draft(const SubmitJob& request, Revision revision, absl::Time at) const;

  struct Retired {
    std::vector<JobId> went_on;      // jobs that waited for its end
    std::optional<JobId> forgotten;  // to make room for it
  };
  // Records that a job has become terminal.
  Retired Retire(JobId id);
  // The job that an earlier command with this request id has made.
  std::optional<JobId> FindRequest(const std::string& request_id) const;
  // Bytes of the specs and sealed secrets of all jobs on record.
  uint64_t spec_bytes() const { return spec_bytes_; }
  // Drops the record of a job that is terminal.
  void Forget(JobId id);

  // Null when unknown.
  Job* Find(JobId id);
  const Job* Find(JobId id) const;
  // Errors: NotFound.
  absl::StatusOr<Job*> Get(JobId id);
  // Oldest first.
  std::vector<const Job*> jobs() const;
  // The jobs that are not terminal, oldest first. Decisions look at these, however long the history
  // is.
  std::vector<const Job*> unfinished() const;
  // How many of these are of the user.
  size_t unfinished_of(const std::string& user) const;
  // When the record of each finished job expires, soonest first.
  const std::set<std::pair<absl::Time, JobId>>& expiries() const { return expiries_; }
  uint64_t last_id() const { return last_id_; }
  // In the order in which they finished.
  const std::deque<JobId>& finished() const { return finished_; }

 private:
  // Errors: InvalidArgument `after` names an unknown job.
  absl::StatusOr<std::vector<AwaitedJob>> Await(const std::vector<Dependency>& after) const;
  static AwaitedJob::State EndOf(const Job& job, const Dependency& on);
  static std::pair<absl::Time, JobId> ExpiryOf(const Job& job);

  uint64_t last_id_ = 0;
  std::map<JobId, Job> jobs_;
  std::map<std::string, JobId> by_request_;
  std::deque<JobId> finished_;  // in the order in which they finished
  std::set<JobId> unfinished_;
  std::map<std::string, size_t> unfinished_of_;  // by user; no entry: none
  std::set<std::pair<absl::Time, JobId>> expiries_;
  uint64_t spec_bytes_ = 0;
  // By unfinished job: the jobs that wait for its end. Some of these may be finished.
  std::map<JobId, std::set<JobId>> awaiting_;
};

}  // namespace dp::core
