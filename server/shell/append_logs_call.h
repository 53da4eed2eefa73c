#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/logs.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/shell/driver.h"
#include "server/shell/log_thread.h"

namespace dp::server {

// One Append, from thread to thread: the driver checks who asks, the log thread writes and syncs,
// the driver wakes the readers and finishes the call. Deletes itself when gRPC is done with it.
class AppendLogsCall final : public grpc::ServerUnaryReactor {
 public:
  AppendLogsCall(Driver& driver, LogThread& logs, const v1::AppendLogsRequest& request,
                 v1::AppendLogsResponse& response)
      : driver_(driver), logs_(logs), request_(request), response_(response) {}

  void Start();
  void OnDone() override { delete this; }

 private:
  // In this order; each ends the call on an error, or hands it to the next.
  absl::Status Check(const View& view);
  absl::Status Written(const absl::StatusOr<LogThread::Appended>& appended);
  void Told(const absl::Status& status, const View& view);
  // Has the logs of jobs that have ended removed, the one that ended first before the others.
  void MakeRoom();

  Driver& driver_;
  LogThread& logs_;
  const v1::AppendLogsRequest& request_;
  v1::AppendLogsResponse& response_;
};

}  // namespace dp::server
