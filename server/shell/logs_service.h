#pragma once

#include "dp/v1/logs.grpc.pb.h"
#include "server/shell/driver.h"
#include "server/shell/log_thread.h"

namespace dp::server {

// proto/dp/v1/logs.proto over the driver and the log thread. Thread-safe.
class LogsService final : public v1::Logs::CallbackService {
 public:
  LogsService(Driver& driver, LogThread& logs) : driver_(driver), logs_(logs) {}

  grpc::ServerUnaryReactor* Append(grpc::CallbackServerContext* context,
                                   const v1::AppendLogsRequest* request,
                                   v1::AppendLogsResponse* response) override;
  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context,
                                 const v1::ReadLogsRequest* request,
                                 v1::ReadLogsResponse* response) override;

 private:
  Driver& driver_;
  LogThread& logs_;
};

}  // namespace dp::server
