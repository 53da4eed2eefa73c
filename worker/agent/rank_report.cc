#include "worker/agent/rank_report.h"

#include <string>

#include "proto/convert/time.h"

namespace dp::worker {
namespace {

v1::RankState StateFor(Milestone milestone) {
  switch (milestone) {
    case Milestone::kNone:
      return v1::RANK_STATE_UNSPECIFIED;
    case Milestone::kStarted:
      return v1::RANK_STATE_STARTED;
    case Milestone::kExited:
      return v1::RANK_STATE_EXITED;
    case Milestone::kReleased:
      return v1::RANK_STATE_RELEASED;
  }
  return v1::RANK_STATE_UNSPECIFIED;
}

constexpr char kIsolated[] = "its worker had lost touch with the coordinator (onIsolation is stop)";

}  // namespace

v1::ReportRankRequest RequestFor(const Report& report, const Process& process,
                                 const Session& session) {
  v1::ReportRankRequest request;
  request.set_worker_id(session.worker_id);
  request.set_incarnation(session.incarnation.value());
  request.set_job(report.key.job.value());
  request.set_generation(report.key.generation.value());
  request.set_rank(report.key.rank);
  request.set_state(StateFor(report.milestone));
  request.set_pid(process.pid);
  if (process.job_submitted_at != absl::UnixEpoch()) {
    *request.mutable_job_submitted_at() = ToProto(process.job_submitted_at);
  }
  if (report.milestone != Milestone::kExited) return request;
  request.set_stopped(process.stopped());
  if (process.isolated) request.set_stop_reason(kIsolated);
  request.set_oom(process.oom);
  request.set_error(process.error);
  for (const std::string& line : process.last_lines) request.add_last_lines(line);
  if (!process.error.empty()) return request;
  const bool code = process.exit.how == Exit::How::kCode;
  if (code) request.mutable_exit()->set_code(process.exit.number);
  if (!code) request.mutable_exit()->set_signal(process.exit.number);
  return request;
}

}  // namespace dp::worker
