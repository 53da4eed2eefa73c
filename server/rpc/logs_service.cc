#include "server/rpc/logs_service.h"

#include "server/rpc/append_logs_call.h"
#include "server/rpc/read_logs_call.h"

namespace dp::server {

grpc::ServerUnaryReactor* LogsService::Append(grpc::CallbackServerContext*,
                                              const v1::AppendLogsRequest* request,
                                              v1::AppendLogsResponse* response) {
  auto* call = new AppendLogsCall(driver_, logs_, *request, *response);
  call->Start();
  return call;
}

grpc::ServerUnaryReactor* LogsService::Read(grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) {
  auto* call = new ReadLogsCall(driver_, logs_, pages_, *context, *response);
  call->Start(*request);
  return call;
}

}  // namespace dp::server
