#include "server/shell/logs_service.h"

#include "server/shell/append_logs_call.h"
#include "server/shell/read_logs_call.h"

namespace dp::server {

grpc::ServerUnaryReactor* LogsService::Append(grpc::CallbackServerContext*,
                                              const v1::AppendLogsRequest* request,
                                              v1::AppendLogsResponse* response) {
  auto* call = new AppendLogsCall(driver_, logs_, *request, *response);
  call->Start();
  return call;
}

grpc::ServerUnaryReactor* LogsService::Read(grpc::CallbackServerContext* context,
                                            const v1::ReadLogsRequest* request,
                                            v1::ReadLogsResponse* response) {
  auto* call = new ReadLogsCall(driver_, logs_, *context, *request, *response);
  call->Start();
  return call;
}

}  // namespace dp::server
