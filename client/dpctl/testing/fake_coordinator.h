#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status.h"
#include "client/dpctl/context.h"
#include "proto/convert/store_operations.h"
#include "proto/convert/time.h"
#include "store/hash_store.h"

namespace dp::ctl {

// A coordinator with jobs, workers and logs in memory, scripted by a test. Any thread, except for
// the public members, which a test sets up before and reads after.
class FakeCoordinator : public client::JobsConnection,
                        public client::WorkersConnection,
                        public client::LogsConnection,
                        public client::StoreConnection,
                        public client::CheckpointsConnection {
 public:
  std::map<uint64_t, v1::Job> jobs;
  std::map<uint64_t, v1::ListCheckpointsResponse> checkpoints;  // by job
  v1::ListWorkersResponse workers;
  // The answers of Read, one after the other. When none is left, Read calls `on_idle` and waits to
  // be cancelled.
  std::deque<v1::ReadLogsResponse> log_pages;
  std::vector<v1::ReadLogsRequest> log_reads;
  v1::ReadLogsResponse outstanding;  // answer of a Read without lines
  // The longest deadline among the calls of WatchJob, WatchWorkers and GetJob.
  absl::Duration longest_deadline = absl::ZeroDuration();
  // Changes a job that somebody watches.
  std::function<void(v1::Job&)> on_watch = [](v1::Job&) {};
  std::function<void()> on_get = [] {};
  std::function<void()> on_idle = [] {};
  std::function<void()> on_read = [] {};
  std::vector<uint64_t> cancelled;
  std::function<void()> on_cancel = [] {};
  std::vector<v1::WatchJobRequest> job_watches;
  v1::PlanResponse plan;
  std::vector<v1::PlanRequest> plan_requests;
  std::vector<v1::RequeueRequest> requeued;
  std::vector<v1::DrainRequest> drains;
  std::string user;  // of the last submission
  std::deque<v1::WatchEventsResponse> event_pages;
  std::vector<v1::WatchEventsRequest> event_watches;
  // Changes the workers that somebody watches.
  std::function<void(v1::ListWorkersResponse&)> on_watch_workers = [](v1::ListWorkersResponse&) {};
  HashStore values;  // of every job
  v1::ListWaitersResponse waiters;
  // The error of all store calls, if any: the generation is over.
  absl::Status store_error;
  // How many of the next calls find the coordinator out of reach. Calls come from one thread.
  int calls_lost = 0;

  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request,
                                            absl::Duration) override {
    DP_RETURN_IF_ERROR(Reached());
    v1::Job job;
    job.set_id(jobs.empty() ? 1 : jobs.rbegin()->first + 1);
    job.set_state(v1::JOB_STATE_PENDING);
    job.set_version(1);
    *job.mutable_spec() = request.spec();
    user = request.user();
    jobs[job.id()] = job;
    return WithJob<v1::SubmitResponse>(job.id());
  }
  absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request,
                                            absl::Duration deadline) override {
    longest_deadline = std::max(longest_deadline, deadline);
    DP_RETURN_IF_ERROR(Reached());
    on_get();
    return WithJob<v1::GetJobResponse>(request.job());
  }
  // A page has two jobs.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request,
                                                absl::Duration) override {
    DP_RETURN_IF_ERROR(Reached());
    v1::ListJobsResponse response;
    for (auto it = jobs.upper_bound(request.after()); it != jobs.end(); ++it) {
      const v1::Job& job = it->second;
      if (!request.name().empty() && job.spec().name() != request.name()) continue;
      if (!request.states().empty() && !absl::c_linear_search(request.states(), job.state()))
        continue;
      response.set_more(response.jobs_size() == 2);
      if (response.more()) break;
      *response.add_jobs() = job;
    }
    return response;
  }
  absl::StatusOr<v1::WatchJobResponse> WatchJob(const v1::WatchJobRequest& request,
                                                absl::Duration deadline) override {
    longest_deadline = std::max(longest_deadline, deadline);
    DP_RETURN_IF_ERROR(Reached());
    job_watches.push_back(request);
    if (jobs.contains(request.job())) on_watch(jobs[request.job()]);
    return WithJob<v1::WatchJobResponse>(request.job());
  }
  absl::StatusOr<v1::CancelResponse> Cancel(const v1::CancelRequest& request,
                                            absl::Duration) override {
    DP_RETURN_IF_ERROR(Reached());
    cancelled.push_back(request.job());
    if (jobs.contains(request.job())) jobs[request.job()].set_state(v1::JOB_STATE_STOPPING);
    on_cancel();
    return WithJob<v1::CancelResponse>(request.job());
  }

  absl::StatusOr<v1::PlanResponse> Plan(const v1::PlanRequest& request, absl::Duration) override {
    DP_RETURN_IF_ERROR(Reached());
    plan_requests.push_back(request);
    return plan;
  }
  absl::StatusOr<v1::HoldResponse> Hold(const v1::HoldRequest& request, absl::Duration) override {
    return Change<v1::HoldResponse>(request.job(), [](v1::Job& job) { job.set_held(true); });
  }
  absl::StatusOr<v1::ReleaseResponse> Release(const v1::ReleaseRequest& request,
                                              absl::Duration) override {
    return Change<v1::ReleaseResponse>(request.job(), [](v1::Job& job) { job.set_held(false); });
  }
  absl::StatusOr<v1::SetPriorityResponse> SetPriority(const v1::SetPriorityRequest& request,
                                                      absl::Duration) override {
    return Change<v1::SetPriorityResponse>(
        request.job(), [&](v1::Job& job) { job.set_priority(request.priority()); });
  }
  absl::StatusOr<v1::RequeueResponse> Requeue(const v1::RequeueRequest& request,
                                              absl::Duration) override {
    requeued.push_back(request);
    return Change<v1::RequeueResponse>(request.job(), [](v1::Job&) {});
  }
  // One page after the other. When none is left, waits to be cancelled.
  absl::StatusOr<v1::WatchEventsResponse> WatchEvents(const v1::WatchEventsRequest& request,
                                                      absl::Duration) override {
    DP_RETURN_IF_ERROR(Reached());
    event_watches.push_back(request);
    if (event_pages.empty()) return AwaitCancelAll();
    v1::WatchEventsResponse page = event_pages.front();
    event_pages.pop_front();
    return page;
  }

  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest&,
                                                      absl::Duration) override {
    DP_RETURN_IF_ERROR(Reached());
    return workers;
  }
  absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request,
                                          absl::Duration) override {
    drains.push_back(request);
    return ChangeWorker<v1::DrainResponse>(request.worker(), [&](v1::Worker& worker) {
      worker.set_drained(true);
      worker.set_reason(request.reason());
      worker.set_state(worker.jobs().empty() ? v1::WORKER_STATE_DRAINED
                                             : v1::WORKER_STATE_DRAINING);
    });
  }
  absl::StatusOr<v1::UndrainResponse> Undrain(const v1::UndrainRequest& request,
                                              absl::Duration) override {
    return ChangeWorker<v1::UndrainResponse>(request.worker(), [](v1::Worker& worker) {
      worker.set_drained(false);
      worker.clear_reason();
      worker.set_state(v1::WORKER_STATE_READY);
    });
  }
  absl::StatusOr<v1::WatchWorkersResponse> WatchWorkers(const v1::WatchWorkersRequest& request,
                                                        absl::Duration deadline) override {
    longest_deadline = std::max(longest_deadline, deadline);
    DP_RETURN_IF_ERROR(Reached());
    on_watch_workers(workers);
    v1::WatchWorkersResponse response;
    response.set_version(request.since() + 1);
    *response.mutable_workers() = workers.workers();
    return response;
  }

  absl::StatusOr<v1::ReadLogsResponse> ReadLogs(const v1::ReadLogsRequest& request,
                                                absl::Duration) override {
    DP_RETURN_IF_ERROR(Reached());
    if (request.without_lines()) return outstanding;
    log_reads.push_back(request);
    if (log_pages.empty()) return AwaitCancelAll();
    v1::ReadLogsResponse page = log_pages.front();
    log_pages.pop_front();
    on_read();
    return page;
  }

  absl::StatusOr<v1::ExecuteResponse> Execute(const v1::ExecuteRequest& request,
                                              absl::Duration) override {
    if (!store_error.ok()) return store_error;
    return Answer<v1::ExecuteResponse>(
        values.Execute(OperationsFromProto(request.operations()).value()));
  }
  absl::StatusOr<v1::AwaitResponse> Await(const v1::AwaitRequest& request,
                                          absl::Duration) override {
    if (!store_error.ok()) return store_error;
    return Answer<v1::AwaitResponse>(
        values.Await(OperationsFromProto(request.reads()).value(), FromProto(request.timeout())));
  }
  absl::StatusOr<v1::ListWaitersResponse> ListWaiters(const v1::ListWaitersRequest&,
                                                      absl::Duration) override {
    return waiters;
  }

  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(
      const v1::ListCheckpointsRequest& request, absl::Duration) override {
    return checkpoints[request.job()];
  }

  // Starts a new connection, whose calls are not cancelled.
  void Connect() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    calls_cancelled_ = false;
  }
  void CancelAll() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      calls_cancelled_ = true;
    }
    changed_.NotifyAll();
  }

  // dpctl is no worker.
  absl::StatusOr<v1::RegisterResponse> Register(const v1::RegisterRequest&,
                                                absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest&,
                                                  absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::WatchAssignmentResponse> WatchAssignment(const v1::WatchAssignmentRequest&,
                                                              absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::ReportRankResponse> ReportRank(const v1::ReportRankRequest&,
                                                    absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::ReportSlotsResponse> ReportSlots(const v1::ReportSlotsRequest&,
                                                      absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::RegisterCheckpointResponse> RegisterCheckpoint(
      const v1::RegisterCheckpointRequest&, absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::RegisterWeightsResponse> RegisterWeights(const v1::RegisterWeightsRequest&,
                                                              absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::AppendLogsResponse> AppendLogs(const v1::AppendLogsRequest&,
                                                    absl::Duration) override {
    return absl::UnimplementedError("");
  }

 private:
  absl::Status AwaitCancelAll() DP_EXCLUDES(mu_) {
    on_idle();
    MutexLock lock(mu_);
    while (!calls_cancelled_) changed_.Wait(mu_);
    return absl::CancelledError("");
  }

  // Why a call does not arrive. After CancelAll, no call arrives until the next Connect.
  absl::Status Reached() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (calls_cancelled_) return absl::CancelledError("the client cancelled its calls");
    if (calls_lost == 0) return absl::OkStatus();
    --calls_lost;
    return absl::UnavailableError("coordinator at fake:1: refused");
  }

  template <typename Response>
  static absl::StatusOr<Response> Answer(const absl::StatusOr<std::vector<StoreResult>>& results) {
    if (!results.ok()) return results.status();
    Response response;
    ResultsToProto(*results, response.mutable_results());
    return response;
  }

  template <typename Response, typename How>
  absl::StatusOr<Response> Change(uint64_t id, How how) {
    DP_RETURN_IF_ERROR(Reached());
    if (const auto job = jobs.find(id); job != jobs.end()) how(job->second);
    return WithJob<Response>(id);
  }

  template <typename Response, typename How>
  absl::StatusOr<Response> ChangeWorker(const std::string& name, How how) {
    DP_RETURN_IF_ERROR(Reached());
    for (v1::Worker& worker : *workers.mutable_workers()) {
      if (worker.name() != name) continue;
      how(worker);
      Response response;
      *response.mutable_worker() = worker;
      return response;
    }
    return absl::NotFoundError(absl::StrCat("no worker has the name '", name, "'"));
  }

  template <typename Response>
  absl::StatusOr<Response> WithJob(uint64_t id) const {
    const auto job = jobs.find(id);
    if (job == jobs.end()) return absl::NotFoundError(absl::StrCat("no job ", id));
    Response response;
    *response.mutable_job() = job->second;
    return response;
  }

  Mutex mu_;
  CondVar changed_;
  bool calls_cancelled_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::ctl
