#pragma once

#include "dp/v1/jobs.grpc.pb.h"
#include "server/driver/driver.h"
#include "server/logs/log_thread.h"

namespace dp::server {

// Serves proto/dp/v1/jobs.proto through the driver; a failure's last lines may come from the logs.
// Thread-safe.
class JobsService final : public v1::Jobs::CallbackService {
 public:
  // `direct_stores`: whether the coordinator itself serves stores of jobs.
  JobsService(Driver& driver, LogThread& logs, bool direct_stores)
      : driver_(driver), logs_(logs), direct_stores_(direct_stores) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetJobRequest* request,
                                v1::GetJobResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListJobsRequest* request,
                                 v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  const v1::WatchJobRequest* request,
                                  v1::WatchJobResponse* response) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override;
  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const v1::PlanRequest* request,
                                 v1::PlanResponse* response) override;
  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context,
                                 const v1::HoldRequest* request,
                                 v1::HoldResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;
  grpc::ServerUnaryReactor* SetPriority(grpc::CallbackServerContext* context,
                                        const v1::SetPriorityRequest* request,
                                        v1::SetPriorityResponse* response) override;
  grpc::ServerUnaryReactor* Requeue(grpc::CallbackServerContext* context,
                                    const v1::RequeueRequest* request,
                                    v1::RequeueResponse* response) override;
  grpc::ServerUnaryReactor* WatchEvents(grpc::CallbackServerContext* context,
                                        const v1::WatchEventsRequest* request,
                                        v1::WatchEventsResponse* response) override;

 private:
  // Errors: those of CheckJobSpec; InvalidArgument nobody would serve the job's store.
  absl::StatusOr<core::JobSpec> Check(const v1::JobSpec& spec) const;
  // Applies the command to a job, and answers with the job.
  template <typename Response>
  grpc::ServerUnaryReactor* Change(grpc::CallbackServerContext* context, uint64_t job,
                                   core::Action action, Response* response);
  // Answers once the job's version is no longer `since`.
  template <typename Response>
  grpc::ServerUnaryReactor* Watch(uint64_t job, uint64_t since, absl::Duration timeout,
                                  Response* response);

  Driver& driver_;
  LogThread& logs_;
  const bool direct_stores_;
};

}  // namespace dp::server
