#include "server/driver/event_log.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/overloaded.h"
#include "base/program/log.h"

namespace dp::server {
namespace {

using Kind = core::Topic::Kind;

std::string Since(absl::Time begin, absl::Time end) {
  return absl::FormatDuration(absl::Trunc(end - begin, absl::Milliseconds(1)));
}

void LogSubmitted(const core::Job& job) {
  Log(Severity::kInfo, "job_submitted",
      {{"job", job.id.value()}, {"name", job.spec.name}, {"ranks", job.spec.ranks}});
}

void LogPlaced(const core::Job& job, absl::Time at) {
  Log(Severity::kInfo, "job_placed",
      {{"job", job.id.value()},
       {"generation", job.generation.value()},
       {"ranks", job.ranks.size()},
       {"waited", Since(job.submitted_at, at)}});
}

// A join, or the report of a rank that joins by running, touches one job. The list of jobs changes
// only if the job's state has changed.
void LogSealed(JobId id, const core::Outcome& outcome, const core::Coordinator& coordinator,
               absl::Time at) {
  const core::Job* job = coordinator.job(id);
  const bool moved = std::any_of(outcome.changed.begin(), outcome.changed.end(),
                                 [](auto& topic) { return topic.kind == Kind::kJobList; });
  if (!moved || job == nullptr || job->state != core::JobState::kRunning) return;
  Log(Severity::kInfo, "world_sealed",
      {{"job", id.value()},
       {"generation", job->generation.value()},
       {"size", job->world.size()},
       {"waited", Since(job->placed_at.value_or(at), at)}});
}

void LogEnded(const core::Job& job) {
  if (!job.failure.has_value()) {
    Log(Severity::kInfo, "job_ended", {{"job", job.id.value()}, {"state", core::Name(job.state)}});
    return;
  }
  Log(Severity::kInfo, "job_ended",
      {{"job", job.id.value()},
       {"state", core::Name(job.state)},
       {"class", core::Name(job.failure->failure_class)},
       {"reason", job.failure->message}});
}

void LogRetried(const core::Job& job, absl::Time at) {
  const core::PastFailure& past = job.past.back();
  Log(Severity::kWarning, "job_restarts",
      {{"job", job.id.value()},
       {"generation", job.generation.value()},
       {"class", core::Name(past.failure.failure_class)},
       {"counted_as", past.counted_as ? std::string(core::Name(*past.counted_as)) : "nothing"},
       {"in", Since(at, std::max(at, job.not_before))},
       {"reason", past.failure.message}});
}

void LogRegistered(const core::Worker& worker) {
  Log(Severity::kInfo, "worker_registered",
      {{"worker", worker.name},
       {"id", worker.id.value()},
       {"host", worker.host},
       {"slots", worker.slots.size()}});
}

void LogFirstStep(const core::RankKey& rank) {
  Log(Severity::kInfo, "first_step_done",
      {{"job", rank.job.value()}, {"generation", rank.generation.value()}});
}

void LogAccused(const core::AccusePeers& accuse) {
  Log(Severity::kInfo, "peers_accused",
      {{"job", accuse.rank.job.value()},
       {"generation", accuse.rank.generation.value()},
       {"rank", accuse.rank.rank},
       {"missing", absl::StrJoin(accuse.missing, ",")},
       {"error", accuse.error}});
}

void LogCheckpoint(const core::RegisterCheckpoint& checkpoint) {
  Log(Severity::kInfo, "checkpoint_registered",
      {{"job", checkpoint.rank.job.value()},
       {"generation", checkpoint.rank.generation.value()},
       {"step", checkpoint.step},
       {"path", checkpoint.path}});
}

void LogWeights(const core::RegisterWeights& weights) {
  Log(Severity::kInfo, "weights_registered",
      {{"job", weights.rank.job.value()},
       {"generation", weights.rank.generation.value()},
       {"path", weights.path},
       {"sha256", weights.sha256}});
}

// job_removed: a user removed the job. job_forgotten: its ttlAfterFinish has passed, or later jobs
// needed the room.
void LogForgotten(const core::ForgetJob& forget, const std::string& name) {
  if (forget.user.empty()) {
    Log(Severity::kInfo, "job_forgotten", {{"job", forget.job.value()}, {"name", name}});
    return;
  }
  Log(Severity::kInfo, "job_removed",
      {{"job", forget.job.value()}, {"name", name}, {"user", forget.user}});
}

void LogQueued(const char* event, JobId job) {
  Log(Severity::kInfo, event, {{"job", job.value()}});
}

// A lost worker may be off the record already, if many were lost at once.
std::string NameOf(const core::Coordinator& coordinator, WorkerId id) {
  const core::Worker* worker = coordinator.worker(id);
  return worker == nullptr ? id.ToString() : worker->name;
}

}  // namespace

std::string NameToRemove(const core::Command& command, const core::Coordinator& coordinator) {
  const auto* forget = std::get_if<core::ForgetJob>(&command.action);
  const core::Job* job = forget == nullptr ? nullptr : coordinator.job(forget->job);
  return job == nullptr ? "" : job->spec.name;
}

void LogEvents(const core::Command& command, const core::Outcome& outcome,
               const core::Coordinator& coordinator, const std::string& removed) {
  if (!outcome.status.ok() || !outcome.journal) return;
  std::visit(
      Overloaded{
          [](const core::StartEpoch&) {},  // the driver logs it, with the commands replayed
          [&](const core::SubmitJob&) {
            LogSubmitted(*coordinator.job(std::get<JobId>(outcome.reply)));
          },
          [](const core::CancelJob&) {},
          [&](const core::PlaceJob& place) { LogPlaced(*coordinator.job(place.job), command.at); },
          [&](const core::RegisterWorker&) {
            LogRegistered(*coordinator.worker(std::get<WorkerId>(outcome.reply)));
          },
          [&](const core::LeaveWorker& leave) {
            Log(Severity::kInfo, "worker_leaving", {{"worker", NameOf(coordinator, leave.worker)}});
          },
          [&](const core::LoseWorker& lose) {
            Log(Severity::kWarning, "worker_lost",
                {{"worker", NameOf(coordinator, lose.worker)}, {"reason", lose.reason}});
          },
          [&](const core::ReportRank& report) {
            LogSealed(report.rank.job, outcome, coordinator, command.at);
          },
          [&](const core::JoinWorld& join) {
            LogSealed(join.rank.job, outcome, coordinator, command.at);
          },
          [](const core::CompleteFirstStep& step) { LogFirstStep(step.rank); },
          [](const core::StopEarly& stop) {
            Log(Severity::kInfo, "stopped_early",
                {{"job", stop.rank.job.value()}, {"reason", stop.reason}});
          },
          [&](const core::AccusePeers& accuse) { LogAccused(accuse); },
          [](const core::StoreBatch&) {},
          [](const core::RegisterCheckpoint& checkpoint) { LogCheckpoint(checkpoint); },
          [](const core::RegisterWeights& weights) { LogWeights(weights); },
          [](const core::AskHandover& ask) {
            Log(Severity::kInfo, "handover_asked",
                {{"job", ask.job.value()}, {"reason", ask.reason}});
          },
          [](const core::GiveUpRank& give_up) {
            Log(Severity::kInfo, "rank_given_up",
                {{"job", give_up.rank.job.value()},
                 {"generation", give_up.rank.generation.value()},
                 {"rank", give_up.rank.rank},
                 {"reason", give_up.reason}});
          },
          [&](const core::RetryJob& retry) { LogRetried(*coordinator.job(retry.job), command.at); },
          [](const core::FinishJob&) {},  // the job has ended, which is logged below
          [](const core::HoldJob& hold) { LogQueued("job_held", hold.job); },
          [](const core::ReleaseJob& release) { LogQueued("job_released", release.job); },
          [](const core::PrioritizeJob& prioritize) {
            Log(Severity::kInfo, "job_prioritized",
                {{"job", prioritize.job.value()}, {"priority", prioritize.priority}});
          },
          [](const core::RequeueJob& requeue) { LogQueued("job_requeued", requeue.job); },
          [](const core::ExpireJob& expire) { LogQueued("job_expired", expire.job); },
          [&](const core::ForgetJob& forget) { LogForgotten(forget, removed); },
          [&](const core::ReportSlots& report) {
            const bool healthy = report.unhealthy.empty();
            Log(healthy ? Severity::kInfo : Severity::kWarning, "worker_slots_reported",
                {{"worker", NameOf(coordinator, report.worker)},
                 {"unhealthy", report.unhealthy.size()}});
          },
          [](const core::GrantRole& grant) {
            Log(Severity::kInfo, "role_granted",
                {{"name", grant.name}, {"role", std::string(security::NameOf(grant.role))}});
          },
          [](const core::RevokeAccess& revoke) {
            Log(Severity::kInfo, "access_revoked",
                {{"name", revoke.name}, {"of", revoke.worker ? "worker" : "person"}});
          },
          [](const core::UseToken& use) {
            Log(Severity::kInfo, "token_used", {{"by", security::ToString(use.identity)}});
          },
          [](const core::DrainWorker& drain) {
            Log(Severity::kInfo, "worker_drained",
                {{"worker", drain.worker}, {"reason", drain.reason}});
          },
          [](const core::UndrainWorker& undrain) {
            Log(Severity::kInfo, "worker_undrained", {{"worker", undrain.worker}});
          }},
      command.action);
  // A terminal job never changes again, so each end is logged once.
  for (const core::Topic& topic : outcome.changed) {
    if (topic.kind != Kind::kJob) continue;
    const core::Job* job = coordinator.job(JobId(topic.id));
    if (job != nullptr && job->terminal()) LogEnded(*job);
  }
}

}  // namespace dp::server
