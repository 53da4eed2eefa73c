#include "server/core/job_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/status.h"

namespace dp::core {
namespace {

// A seal adds some 40 bytes to each value.
constexpr size_t kSealedBytesMax = kSecretBytesMax + kSecretsMax * 64;

absl::Status CheckScheduling(const Scheduling& scheduling) {
  DP_RETURN_IF_ERROR(CheckPriority(scheduling.priority));
  constexpr size_t kConstraintsMax = kLabelsMax + 2;  // memoryMibPerRank and secrets imply more
  if (scheduling.max_duration > absl::ZeroDuration() &&
      scheduling.grow_after > absl::ZeroDuration() &&
      scheduling.ttl_after_finish >= absl::ZeroDuration() &&
      scheduling.after.size() <= kDependenciesMax &&
      scheduling.constraints.size() <= kConstraintsMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a job has a maxDuration and a growAfter above 0, a ttlAfterFinish of 0 or more, at most ",
      kDependenciesMax, " jobs that it waits for, and ", kConstraintsMax, " constraints"));
}

absl::Status CheckRequest(const SubmitJob& request) {
  if (request.request_id.empty() || request.request_id.size() > JobRegistry::kRequestIdBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request_id has ", request.request_id.size(),
        " bytes; draw one at random for each job, of 1 to ", JobRegistry::kRequestIdBytesMax));
  }
  if (request.spec.ranks < 1 || request.spec.ranks > kRanksMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks is ", request.spec.ranks, "; give a number from 1 to ", kRanksMax));
  }
  const int nodes = request.spec.nodes;
  if (nodes < 0 || (nodes > 0 && request.spec.ranks % nodes != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("nodes is ", nodes, "; it must divide the ",
                                                   request.spec.ranks, " ranks evenly, or be 0"));
  }
  const int nodes_max = request.spec.nodes_max;
  if (nodes_max != 0 && (nodes == 0 || nodes_max < nodes || request.spec.ranks_max() > kRanksMax)) {
    return absl::InvalidArgumentError(absl::StrCat("nodes_max is ", nodes_max, "; it must be from ",
                                                   nodes, " up to what makes ", kRanksMax,
                                                   " ranks, or 0"));
  }
  DP_RETURN_IF_ERROR(CheckScheduling(request.spec.scheduling));
  if (request.secrets.size() > kSecretsMax || BytesOf(request.secrets) > kSealedBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the job has ", request.secrets.size(), " secrets of ", BytesOf(request.secrets),
        " sealed bytes; the limits are ", kSecretsMax, " and ", kSealedBytesMax));
  }
  if (request.spec.payload.size() <= kSpecBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the job's spec has ", request.spec.payload.size(),
                                                 " bytes, the limit is ", kSpecBytesMax));
}

}  // namespace

uint64_t BytesOf(const std::vector<SealedSecret>& secrets) {
  uint64_t bytes = 0;
  for (const SealedSecret& secret : secrets) bytes += secret.name.size() + secret.sealed.size();
  return bytes;
}

absl::Status CheckPriority(int priority) {
  if (priority >= -kPriorityMax && priority <= kPriorityMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("priority is ", priority, "; give a number from ",
                                                 -kPriorityMax, " to ", kPriorityMax));
}

absl::Status UnknownJob(JobId id) {
  return absl::NotFoundError(
      absl::StrCat("job ", id.ToString(), " is not known; 'dpctl ps -a' lists all"));
}

absl::Status CheckNotOver(const Job& job) {
  if (!job.terminal()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id.ToString(), " is over: ", Name(job.state)));
}

absl::Status CheckGeneration(const Job& job, Generation generation) {
  if (!job.generation.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id.ToString(), " has not been placed"));
  }
  if (generation == job.generation) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id.ToString(), ": generation ", generation.ToString(),
                   generation < job.generation ? " is stale" : " has not begun", ", current is ",
                   job.generation.ToString()));
}

absl::Status UnknownPredecessor(JobId id) {
  return absl::InvalidArgumentError(absl::StrCat("after names job ", id.ToString(),
                                                 ", which is not known; 'dpctl ps -a' lists all"));
}

absl::Status AnotherJob(const Job& job) {
  return absl::NotFoundError(absl::StrCat("job ", job.id.ToString(),
                                          " is another one: it was submitted at ",
                                          absl::FormatTime(job.submitted_at)));
}

JobRegistry::JobRegistry(Contents contents)
    : last_id_(contents.last_id),
      jobs_(std::move(contents.jobs)),
      finished_(std::move(contents.finished)) {
  for (const auto& [id, job] : jobs_) {
    by_request_.emplace(job.request_id, id);
    spec_bytes_ += job.spec_bytes();
    if (job.terminal()) {
      expiries_.insert(ExpiryOf(job));
    } else {
      unfinished_.insert(id);
      ++unfinished_of_[job.user];
    }
    for (const AwaitedJob& awaited : job.after) {
      if (awaited.state == AwaitedJob::State::kUnfinished) awaiting_[awaited.on.job].insert(id);
    }
  }
  // Does not compile if a member is added: one that cannot be derived belongs into Contents.
  [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i] = *this;
}

absl::StatusOr<JobRegistry::Submitted> JobRegistry::Submit(const SubmitJob& request,
                                                           Revision revision, absl::Time at) {
  if (const auto made = FindRequest(request.request_id)) return Submitted{*made, false};
  DP_ASSIGN_OR_RETURN(Job job, Draft(request, revision, at));
  const JobId id = job.id;
  for (const AwaitedJob& awaited : job.after) {
    if (awaited.state == AwaitedJob::State::kUnfinished) awaiting_[awaited.on.job].insert(id);
  }
  last_id_ = id.value();
  by_request_.emplace(request.request_id, id);
  spec_bytes_ += job.spec_bytes();
  ++unfinished_of_[job.user];
  jobs_.emplace(id, std::move(job));
  unfinished_.insert(id);
  return Submitted{id, true};
}

absl::StatusOr<Job> JobRegistry::Draft(const SubmitJob& request, Revision revision,
                                       absl::Time at) const {
  DP_RETURN_IF_ERROR(CheckRequest(request));
  if (unfinished_.size() >= kUnfinishedMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        unfinished_.size(), " jobs are unfinished, which is the limit; cancel some or wait"));
  }
  Job job;
  DP_ASSIGN_OR_RETURN(job.after, Await(request.spec.scheduling.after));
  job.id = JobId(last_id_ + 1);
  job.request_id = request.request_id;
  job.spec = request.spec;
  job.user = request.user;
  job.owner = request.owner;
  job.priority = request.spec.scheduling.priority;
  job.held = request.spec.scheduling.hold;
  job.queued = revision;
  job.time_left = request.spec.scheduling.max_duration;
  job.submitted_at = at;
  job.secrets = request.secrets;
  return job;
}

absl::StatusOr<std::vector<AwaitedJob>> JobRegistry::Await(
    const std::vector<Dependency>& after) const {
  std::vector<AwaitedJob> awaited;
  for (const Dependency& on : after) {
    const Job* job = Find(on.job);
    if (job == nullptr) return UnknownPredecessor(on.job);
    awaited.push_back({on, job->terminal() ? EndOf(*job, on) : AwaitedJob::State::kUnfinished});
  }
  return awaited;
}

AwaitedJob::State JobRegistry::EndOf(const Job& job, const Dependency& on) {
  const bool in_vain = on.must_succeed && job.state != JobState::kSucceeded;
  return in_vain ? AwaitedJob::State::kInVain : AwaitedJob::State::kDone;
}

std::pair<absl::Time, JobId> JobRegistry::ExpiryOf(const Job& job) {
  return {*job.finished_at + job.spec.scheduling.ttl_after_finish, job.id};
}

JobRegistry::Retired JobRegistry::Retire(JobId id) {
  Job& ended = jobs_.at(id);
  DP_CHECK(ended.terminal());
  spec_bytes_ -= BytesOf(std::exchange(ended.secrets, {}));
  Retired retired;
  if (const auto awaiting = awaiting_.extract(id)) {
    for (const JobId waits : awaiting.mapped()) {
      if (Job* job = Find(waits); job != nullptr && !job->terminal()) {
        for (AwaitedJob& awaited : job->after) {
          if (awaited.on.job == id) awaited.state = EndOf(ended, awaited.on);
        }
        retired.went_on.push_back(waits);
      }
    }
  }
  unfinished_.erase(id);
  if (--unfinished_of_.at(ended.user) == 0) unfinished_of_.erase(ended.user);
  finished_.push_back(id);
  expiries_.insert(ExpiryOf(ended));
  if (finished_.size() <= kFinishedMax) return retired;
  retired.forgotten = finished_.front();
  Forget(*retired.forgotten);
  return retired;
}

void JobRegistry::Forget(JobId id) {
  DP_CHECK(jobs_.at(id).terminal());
  finished_.erase(std::find(finished_.begin(), finished_.end(), id));
  expiries_.erase(ExpiryOf(jobs_.at(id)));
  by_request_.erase(jobs_.at(id).request_id);
  spec_bytes_ -= jobs_.at(id).spec_bytes();
  jobs_.erase(id);
}

std::optional<JobId> JobRegistry::FindRequest(const std::string& request_id) const {
  const auto it = by_request_.find(request_id);
  return it == by_request_.end() ? std::nullopt : std::optional(it->second);
}

Job* JobRegistry::Find(JobId id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

const Job* JobRegistry::Find(JobId id) const {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

absl::StatusOr<Job*> JobRegistry::Get(JobId id) {
  if (Job* job = Find(id); job != nullptr) return job;
  return UnknownJob(id);
}

std::vector<const Job*> JobRegistry::jobs() const {
  std::vector<const Job*> jobs;
  jobs.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) jobs.push_back(&job);
  return jobs;
}

std::vector<const Job*> JobRegistry::unfinished() const {
  std::vector<const Job*> jobs;
  jobs.reserve(unfinished_.size());
  for (const JobId id : unfinished_) jobs.push_back(&jobs_.at(id));
  return jobs;
}

size_t JobRegistry::unfinished_of(const std::string& user) const {
  const auto it = unfinished_of_.find(user);
  return it == unfinished_of_.end() ? 0 : it->second;
}

}  // namespace dp::core
