#pragma once

#include "dp/v1/jobs.grpc.pb.h"
#include "server/shell/driver.h"

namespace dp::server {

// proto/dp/v1/jobs.proto over the driver. Thread-safe.
class JobsService final : public v1::Jobs::CallbackService {
 public:
  explicit JobsService(Driver& driver) : driver_(driver) {}

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

 private:
  Driver& driver_;
};

}  // namespace dp::server
