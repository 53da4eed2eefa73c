#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/dpctl/testing/fake_access.h"
#include "client/testing/fake_parameters.h"
#include "client/testing/in_process.h"
#include "dp/v1/checkpoints.grpc.pb.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "dp/v1/logs.grpc.pb.h"
#include "dp/v1/store.grpc.pb.h"
#include "dp/v1/workers.grpc.pb.h"
#include "proto/convert/store_operations.h"
#include "proto/convert/time.h"
#include "store/hash_store.h"

namespace dp::ctl {

// A coordinator with jobs, workers and logs in memory, scripted by a test. Runs on gRPC's
// threads, at most one call at a time that does not block. A test sets the public members before a
// call and reads them after it.
class FakeCoordinator final : public v1::Jobs::Service,
                              public v1::Workers::Service,
                              public v1::Logs::Service,
                              public v1::Store::Service,
                              public v1::Checkpoints::Service {
 public:
  std::map<uint64_t, v1::Job> jobs;
  std::map<uint64_t, v1::ListCheckpointsResponse> checkpoints;  // by job
  v1::ListWorkersResponse workers;
  // The answers of Read, one after the other. When none is left, Read calls `on_idle` and blocks.
  std::deque<v1::ReadLogsResponse> log_pages;
  std::vector<v1::ReadLogsRequest> log_reads;
  v1::ReadLogsResponse outstanding;  // answer of a Read without lines
  // The longest deadline among the calls of Jobs.Watch, Workers.Watch and Jobs.Get.
  absl::Duration longest_deadline = absl::ZeroDuration();
  // Changes a job that somebody watches.
  std::function<void(v1::Job&)> on_watch = [](v1::Job&) {};
  std::function<void()> on_get = [] {};
  std::function<void()> on_idle = [] {};
  std::function<void()> on_read = [] {};
  // Before a question about events is answered.
  std::function<void()> on_events = [] {};
  std::vector<uint64_t> cancelled;
  std::function<void()> on_cancel = [] {};
  std::vector<v1::WatchJobRequest> job_watches;
  v1::PlanResponse plan;
  std::vector<v1::PlanRequest> plan_requests;
  std::vector<v1::RequeueRequest> requeued;
  int submissions = 0;
  std::vector<uint64_t> removed;
  bool removed_with_files = false;  // as the last removal says
  std::function<void()> on_remove = [] {};
  absl::Time now;      // by its clock
  bool older = false;  // of a release that lists all jobs, whatever their end
  std::vector<v1::DrainRequest> drains;
  std::string user;                 // of the last submission or removal
  std::vector<v1::Secret> secrets;  // of the last submission
  std::deque<v1::WatchEventsResponse> event_pages;
  std::vector<v1::WatchEventsRequest> event_watches;
  // Changes the workers that somebody watches.
  std::function<void(v1::ListWorkersResponse&)> on_watch_workers = [](v1::ListWorkersResponse&) {};
  HashStore values;  // of every job
  v1::ListWaitersResponse waiters;
  // The error of all submissions, if any.
  absl::Status submit_error;
  // The error of all watches of jobs, if any.
  absl::Status watch_error;
  // The error of all store calls, if any: the generation is over.
  absl::Status store_error;
  // How many of the next calls find the coordinator out of reach.
  int calls_lost = 0;
  // Their reason, in gRPC's words.
  std::string lost_because = "Failed to connect to remote host: Connection refused";
  FakeAccess access;
  client::FakeParameters parameters;

  ~FakeCoordinator() override {
    {
      MutexLock lock(mu_);
      gone_ = true;
    }
    changed_.NotifyAll();
  }

  std::unique_ptr<client::Connection> Connect() { return server_.Connect(); }

  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest* request,
                      v1::SubmitResponse* response) override {
    return Reply([&]() -> absl::Status {
      ++submissions;
      if (!submit_error.ok()) return submit_error;
      v1::Job job;
      job.set_id(jobs.empty() ? 1 : jobs.rbegin()->first + 1);
      job.set_state(v1::JOB_STATE_PENDING);
      job.set_version(1);
      *job.mutable_spec() = request->spec();
      user = request->user();
      secrets = {request->secrets().begin(), request->secrets().end()};
      jobs[job.id()] = job;
      return CopyJob(job.id(), response);
    });
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::GetJobRequest* request,
                   v1::GetJobResponse* response) override {
    longest_deadline = std::max(longest_deadline, client::DeadlineOf(*context));
    return Reply([&]() -> absl::Status {
      on_get();
      return CopyJob(request->job(), response);
    });
  }
  // A page has two jobs.
  grpc::Status List(grpc::ServerContext*, const v1::ListJobsRequest* request,
                    v1::ListJobsResponse* response) override {
    return Reply([&]() -> absl::Status {
      if (request->has_finished_for() && !older) {
        *response->mutable_finished_for() = request->finished_for();
      }
      for (auto it = jobs.upper_bound(request->after()); it != jobs.end(); ++it) {
        const v1::Job& job = it->second;
        if (!request->name().empty() && job.spec().name() != request->name()) continue;
        if (request->has_finished_for() && !Ended(job, FromProto(request->finished_for())))
          continue;
        if (!request->states().empty() && !absl::c_linear_search(request->states(), job.state()))
          continue;
        response->set_more(response->jobs_size() == 2);
        if (response->more()) break;
        *response->add_jobs() = job;
      }
      return absl::OkStatus();
    });
  }
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                     v1::WatchJobResponse* response) override {
    longest_deadline = std::max(longest_deadline, client::DeadlineOf(*context));
    return Reply([&]() -> absl::Status {
      job_watches.push_back(*request);
      if (jobs.contains(request->job())) on_watch(jobs[request->job()]);
      return watch_error.ok() ? CopyJob(request->job(), response) : watch_error;
    });
  }
  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelRequest* request,
                      v1::CancelResponse* response) override {
    return Reply([&]() -> absl::Status {
      cancelled.push_back(request->job());
      if (jobs.contains(request->job())) jobs[request->job()].set_state(v1::JOB_STATE_STOPPING);
      on_cancel();
      return CopyJob(request->job(), response);
    });
  }

  grpc::Status Plan(grpc::ServerContext*, const v1::PlanRequest* request,
                    v1::PlanResponse* response) override {
    return Reply([&]() -> absl::Status {
      plan_requests.push_back(*request);
      *response = plan;
      return absl::OkStatus();
    });
  }
  grpc::Status Hold(grpc::ServerContext*, const v1::HoldRequest* request,
                    v1::HoldResponse* response) override {
    return Change(
        request->job(), [](v1::Job& job) { job.set_held(true); }, response);
  }
  grpc::Status Release(grpc::ServerContext*, const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override {
    return Change(
        request->job(), [](v1::Job& job) { job.set_held(false); }, response);
  }
  grpc::Status SetPriority(grpc::ServerContext*, const v1::SetPriorityRequest* request,
                           v1::SetPriorityResponse* response) override {
    return Change(
        request->job(), [&](v1::Job& job) { job.set_priority(request->priority()); }, response);
  }
  grpc::Status Requeue(grpc::ServerContext*, const v1::RequeueRequest* request,
                       v1::RequeueResponse* response) override {
    requeued.push_back(*request);
    return Change(
        request->job(), [](v1::Job&) {}, response);
  }
  grpc::Status Remove(grpc::ServerContext*, const v1::RemoveRequest* request,
                      v1::RemoveResponse*) override {
    return Reply([&]() -> absl::Status {
      const auto job = jobs.find(request->job());
      if (job == jobs.end()) return absl::NotFoundError(absl::StrCat("no job ", request->job()));
      if (!job->second.has_finished_at()) {
        return absl::FailedPreconditionError(
            absl::StrCat("job ", request->job(), " is running, not over; cancel it first"));
      }
      removed.push_back(request->job());
      removed_with_files = request->with_files();
      user = request->user();
      on_remove();
      jobs.erase(job);
      return absl::OkStatus();
    });
  }
  // One page after the other. When none is left, calls `on_idle` and blocks.
  grpc::Status WatchEvents(grpc::ServerContext*, const v1::WatchEventsRequest* request,
                           v1::WatchEventsResponse* response) override {
    return Reply([&]() -> absl::Status {
      event_watches.push_back(*request);
      if (request->job() != 0 && !jobs.contains(request->job()))
        return absl::NotFoundError("the job is not known");
      on_events();
      if (event_pages.empty()) return AwaitEnd();
      *response = event_pages.front();
      event_pages.pop_front();
      return absl::OkStatus();
    });
  }

  grpc::Status List(grpc::ServerContext*, const v1::ListWorkersRequest*,
                    v1::ListWorkersResponse* response) override {
    return Reply([&]() -> absl::Status {
      *response = workers;
      return absl::OkStatus();
    });
  }
  grpc::Status Drain(grpc::ServerContext*, const v1::DrainRequest* request,
                     v1::DrainResponse* response) override {
    drains.push_back(*request);
    return ChangeWorker(
        request->worker(),
        [&](v1::Worker& worker) {
          worker.set_drained(true);
          worker.set_reason(request->reason());
          worker.set_state(worker.jobs().empty() ? v1::WORKER_STATE_DRAINED
                                                 : v1::WORKER_STATE_DRAINING);
        },
        response);
  }
  grpc::Status Undrain(grpc::ServerContext*, const v1::UndrainRequest* request,
                       v1::UndrainResponse* response) override {
    return ChangeWorker(
        request->worker(),
        [](v1::Worker& worker) {
          worker.set_drained(false);
          worker.clear_reason();
          worker.set_state(v1::WORKER_STATE_READY);
        },
        response);
  }
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchWorkersRequest* request,
                     v1::WatchWorkersResponse* response) override {
    longest_deadline = std::max(longest_deadline, client::DeadlineOf(*context));
    return Reply([&]() -> absl::Status {
      on_watch_workers(workers);
      response->set_version(request->since() + 1);
      *response->mutable_workers() = workers.workers();
      return absl::OkStatus();
    });
  }

  grpc::Status Read(grpc::ServerContext*, const v1::ReadLogsRequest* request,
                    v1::ReadLogsResponse* response) override {
    return Reply([&]() -> absl::Status {
      if (request->without_lines()) {
        *response = outstanding;
        return absl::OkStatus();
      }
      log_reads.push_back(*request);
      if (!jobs.contains(request->job()))
        return absl::NotFoundError(absl::StrCat("no job ", request->job()));
      if (log_pages.empty()) return AwaitEnd();
      *response = log_pages.front();
      log_pages.pop_front();
      on_read();
      return absl::OkStatus();
    });
  }

  grpc::Status Execute(grpc::ServerContext*, const v1::ExecuteRequest* request,
                       v1::ExecuteResponse* response) override {
    return Answer(values.Execute(OperationsFromProto(request->operations()).value()), response);
  }
  grpc::Status Await(grpc::ServerContext*, const v1::AwaitRequest* request,
                     v1::AwaitResponse* response) override {
    return Answer(
        values.Await(OperationsFromProto(request->reads()).value(), FromProto(request->timeout())),
        response);
  }
  grpc::Status ListWaiters(grpc::ServerContext*, const v1::ListWaitersRequest*,
                           v1::ListWaitersResponse* response) override {
    *response = waiters;
    return grpc::Status::OK;
  }

  grpc::Status List(grpc::ServerContext*, const v1::ListCheckpointsRequest* request,
                    v1::ListCheckpointsResponse* response) override {
    *response = checkpoints[request->job()];
    return grpc::Status::OK;
  }

 private:
  // A call's answer, unless the coordinator is out of reach.
  grpc::Status Reply(absl::FunctionRef<absl::Status()> answer) {
    if (calls_lost == 0) return client::ToGrpc(answer());
    --calls_lost;
    return {grpc::StatusCode::UNAVAILABLE, lost_because};
  }

  // Blocks until the destructor runs. The client cancels the call before that, but gRPC does not
  // interrupt a service that blocks.
  absl::Status AwaitEnd() DP_EXCLUDES(mu_) {
    on_idle();
    MutexLock lock(mu_);
    while (!gone_) changed_.Wait(mu_);
    return absl::CancelledError("");
  }

  template <typename Response>
  grpc::Status Answer(const absl::StatusOr<std::vector<StoreResult>>& results,
                      Response* response) const {
    if (!store_error.ok()) return client::ToGrpc(store_error);
    if (results.ok()) ResultsToProto(*results, response->mutable_results());
    return client::ToGrpc(results.status());
  }

  template <typename Response, typename How>
  grpc::Status Change(uint64_t id, How how, Response* response) {
    return Reply([&] {
      if (const auto job = jobs.find(id); job != jobs.end()) how(job->second);
      return CopyJob(id, response);
    });
  }

  template <typename Response, typename How>
  grpc::Status ChangeWorker(const std::string& name, How how, Response* response) {
    return Reply([&]() -> absl::Status {
      for (v1::Worker& worker : *workers.mutable_workers()) {
        if (worker.name() != name) continue;
        how(worker);
        *response->mutable_worker() = worker;
        return absl::OkStatus();
      }
      return absl::NotFoundError(absl::StrCat("no worker has the name '", name, "'"));
    });
  }

  bool Ended(const v1::Job& job, absl::Duration ago) const {
    return job.has_finished_at() && FromProto(job.finished_at()) <= now - ago;
  }

  template <typename Response>
  absl::Status CopyJob(uint64_t id, Response* response) const {
    const auto job = jobs.find(id);
    if (job == jobs.end()) return absl::NotFoundError(absl::StrCat("no job ", id));
    *response->mutable_job() = job->second;
    return absl::OkStatus();
  }

  Mutex mu_;
  CondVar changed_;
  bool gone_ DP_GUARDED_BY(mu_) = false;
  // Last: its destructor awaits the calls.
  client::InProcess server_{static_cast<v1::Jobs::Service&>(*this),
                            static_cast<v1::Workers::Service&>(*this),
                            static_cast<v1::Logs::Service&>(*this),
                            static_cast<v1::Store::Service&>(*this),
                            static_cast<v1::Checkpoints::Service&>(*this),
                            access,
                            parameters};
};

}  // namespace dp::ctl
