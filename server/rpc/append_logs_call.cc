#include "server/rpc/append_logs_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_logs.h"
#include "server/core/job_registry.h"
#include "server/rpc/call.h"

namespace dp::server {
namespace {

// Sorted by the time at which the jobs ended.
std::vector<JobId> EndedJobs(const core::Coordinator& coordinator) {
  std::vector<std::pair<absl::Time, JobId>> ended;
  for (const core::Job* job : coordinator.jobs()) {
    if (job->terminal())
      ended.emplace_back(job->finished_at.value_or(absl::InfinitePast()), job->id);
  }
  std::sort(ended.begin(), ended.end());
  std::vector<JobId> jobs;
  for (const auto& [at, job] : ended) jobs.push_back(job);
  return jobs;
}

// Rejects output of a job that had the same number under another coordinator.
absl::Status CheckSame(const v1::AppendLogsRequest& request, const core::Job& job) {
  if (!request.has_job_submitted_at() ||
      FromProto(request.job_submitted_at()) == job.submitted_at) {
    return absl::OkStatus();
  }
  return core::AnotherJob(job);
}

// Rejects output of ranks that are placed on other workers. The coordinator has kept no places
// of earlier generations.
absl::Status CheckPlaced(const LogBatch& batch, const core::Job& job, const core::Worker& from) {
  for (const RankOutput& output : batch.ranks) {
    if (output.generation != job.generation) continue;
    const core::Rank& rank = job.ranks[static_cast<size_t>(output.rank)];
    if (rank.worker == from.name) continue;
    return absl::PermissionDeniedError(
        absl::StrCat("worker ", from.name, " may not bring output of rank ", output.rank,
                     " of job ", job.id.ToString(), ", which is placed on ", rank.worker));
  }
  return absl::OkStatus();
}

}  // namespace

void AppendLogsCall::Start() {
  FinishOnError(this, admission_.Ask([this](const absl::Status& status, const View& view) {
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
  DP_RETURN_IF_ERROR(CheckSame(request_, *job));
  const core::Worker* from = view.coordinator.worker(WorkerId(request_.worker_id()));
  DP_CHECK(from != nullptr);  // CheckWorker found the worker
  DP_ASSIGN_OR_RETURN(LogBatch batch, FromProto(request_, *job, *from));
  // In plain text the name proves nothing; a daemon may have got another one since.
  if (admission_.caller().kind == Caller::Kind::kCertificate) {
    DP_RETURN_IF_ERROR(CheckPlaced(batch, *job, *from));
  }
  return logs_.Append(job->id, std::move(batch),
                      [this](const absl::StatusOr<LogThread::Appended>& appended) {
                        FinishOnError(this, Written(appended));
                      });
}

absl::Status AppendLogsCall::Written(const absl::StatusOr<LogThread::Appended>& appended) {
  if (!appended.ok()) {
    if (logs_.TakeRoomRequest()) MakeRoom();
    return appended.status();
  }
  for (const LogPosition& end : appended->acknowledged) {
    *response_.add_acknowledged() = ToProto(end);
  }
  // If the driver rejects this, the worker sends the batch again, which wakes the readers.
  return admission_.TellLogs(
      JobId(request_.job()), appended->version,
      [this](const absl::Status& status, const View& view) { Told(status, view); });
}

void AppendLogsCall::MakeRoom() {
  // If the driver rejects this, the next append that finds no room asks again.
  (void)admission_.Ask([logs = &logs_](const absl::Status& status, const View& view) {
    if (status.ok()) (void)logs->MakeRoom(EndedJobs(view.coordinator));
  });
}

void AppendLogsCall::Told(const absl::Status& status, const View& view) {
  if (status.ok()) SetHeader(view, &response_);
  Finish(ToGrpc(status));
}

}  // namespace dp::server
