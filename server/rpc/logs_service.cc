#include "server/rpc/services.h"

#include <memory>

#include "dp/v1/logs.grpc.pb.h"
#include "server/access/gate.h"
#include "server/logs/log_thread.h"
#include "server/rpc/append_logs_call.h"
#include "server/rpc/page_bytes.h"
#include "server/rpc/read_logs_call.h"

namespace dp::server {
namespace {

// Serves proto/dp/v1/logs.proto through the driver and the log thread. Thread-safe. Read answers
// with bytes, so that followers of a job share the bytes of a page.
class LogsService final : public v1::Logs::WithCallbackMethod_Append<
                              v1::Logs::WithRawCallbackMethod_Read<v1::Logs::Service>> {
 public:
  LogsService(Gate& gate, LogThread& logs) : gate_(gate), logs_(logs) {}

  grpc::ServerUnaryReactor* Append(grpc::CallbackServerContext* context,
                                   const v1::AppendLogsRequest* request,
                                   v1::AppendLogsResponse* response) override {
    auto* call = new AppendLogsCall(
        gate_.Admit(*context, Rpc::kLogsAppend, AccessObject::Of(WorkerId(request->worker_id()))),
        logs_, *request, *response);
    call->Start();
    return call;
  }
  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override {
    auto* call =
        new ReadLogsCall(gate_.Admit(*context, Rpc::kLogsRead), logs_, pages_, *context, *response);
    call->Start(*request);
    return call;
  }

 private:
  Gate& gate_;
  LogThread& logs_;
  PageBytes pages_;  // used on the log thread
};

}  // namespace

std::unique_ptr<grpc::Service> MakeLogsService(Gate& gate, LogThread& logs) {
  return std::make_unique<LogsService>(gate, logs);
}

}  // namespace dp::server
