#include "server/shell/append_logs_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/job_registry.h"
#include "server/shell/call.h"
#include "server/shell/convert_logs.h"
#include "server/shell/convert_values.h"

namespace dp::server {

void AppendLogsCall::Start() {
  FinishOnError(this, driver_.Ask([this](const absl::Status& status, const View& view) {
    FinishOnError(this, status.ok() ? Check(view) : status);
  }));
}

absl::Status AppendLogsCall::Check(const View& view) {
  DP_RETURN_IF_ERROR(view.coordinator.CheckWorker(WorkerId(request_.worker_id()),
                                                  Incarnation(request_.incarnation())));
  const core::Job* job = view.coordinator.job(JobId(request_.job()));
  if (job == nullptr) {
    return core::UnknownJob(JobId(request_.job()));
  }
  DP_ASSIGN_OR_RETURN(std::vector<LogChunk> chunks, FromProto(request_, *job));
  return logs_.Append(job->id, std::move(chunks),
                      [this](const absl::StatusOr<LogThread::Appended>& appended) {
                        FinishOnError(this, Written(appended));
                      });
}

absl::Status AppendLogsCall::Written(const absl::StatusOr<LogThread::Appended>& appended) {
  if (!appended.ok()) return appended.status();
  for (const LogPosition& end : appended->acknowledged) {
    *response_.add_acknowledged() = ToProto(end);
  }
  // Where this is refused, the worker sends again, and the readers are woken then.
  return driver_.TellLogs(
      JobId(request_.job()), appended->version,
      [this](const absl::Status& status, const View& view) { Told(status, view); });
}

void AppendLogsCall::Told(const absl::Status& status, const View& view) {
  if (status.ok()) SetHeader(view, &response_);
  Finish(ToGrpc(status));
}

}  // namespace dp::server
