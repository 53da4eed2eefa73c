#pragma once

#include "dp/v1/logs.grpc.pb.h"
#include "server/driver/driver.h"
#include "server/logs/log_thread.h"
#include "server/rpc/page_bytes.h"

namespace dp::server {

// Serves proto/dp/v1/logs.proto through the driver and the log thread. Thread-safe. Read answers
// with bytes, so that followers of a job share the bytes of a page.
class LogsService final : public v1::Logs::WithCallbackMethod_Append<
                              v1::Logs::WithRawCallbackMethod_Read<v1::Logs::Service>> {
 public:
  LogsService(Driver& driver, LogThread& logs) : driver_(driver), logs_(logs) {}

  grpc::ServerUnaryReactor* Append(grpc::CallbackServerContext* context,
                                   const v1::AppendLogsRequest* request,
                                   v1::AppendLogsResponse* response) override;
  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;

 private:
  Driver& driver_;
  LogThread& logs_;
  PageBytes pages_;  // used on the log thread
};

}  // namespace dp::server
