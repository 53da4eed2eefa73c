#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/logs.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/driver/driver.h"
#include "server/logs/log_thread.h"

namespace dp::server {

// One Append. The driver checks the caller, the log thread writes and syncs, then the driver wakes
// the readers and finishes the call. Deletes itself when gRPC is done with it.
class AppendLogsCall final : public grpc::ServerUnaryReactor {
 public:
  AppendLogsCall(const Admission& admission, LogThread& logs, const v1::AppendLogsRequest& request,
                 v1::AppendLogsResponse& response)
      : admission_(admission), logs_(logs), request_(request), response_(response) {}

  void Start();
  void OnDone() override { delete this; }

 private:
  // The steps, in this order. Each ends the call on an error, or starts the next step.
  absl::Status Check(const View& view);
  absl::Status Written(const absl::StatusOr<LogThread::Appended>& appended);
  void Told(const absl::Status& status, const View& view);
  // Removes the logs of terminal jobs, of the job that ended first before the others.
  void MakeRoom();

  const Admission admission_;
  LogThread& logs_;
  const v1::AppendLogsRequest& request_;
  v1::AppendLogsResponse& response_;
};

}  // namespace dp::server
