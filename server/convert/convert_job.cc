#include "server/convert/convert_job.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_checkpoint.h"
#include "server/core/job_lifecycle.h"
#include "server/policy/retry_policy.h"

namespace dp::server {
namespace {

void SetTime(const std::optional<absl::Time>& time,
             google::protobuf::Timestamp* (v1::Job::*field)(), v1::Job* proto) {
  if (time) *(proto->*field)() = ToProto(*time);
}

void Fill(const core::Rank& rank, int number, v1::Rank* proto) {
  proto->set_rank(number);
  proto->set_state(ToProto(rank.state));
  proto->set_worker_id(rank.worker_id.value());
  proto->set_worker(rank.worker);
  proto->set_host(rank.host);
  proto->set_slot(rank.slot);
  proto->set_pid(rank.pid);
  if (rank.exit) *proto->mutable_exit() = ToProto(*rank.exit);
}

void Fill(const core::Failure& failure, v1::Failure* proto) {
  proto->set_failure_class(ToProto(failure.failure_class));
  proto->set_rank(failure.rank.value_or(0));
  proto->set_worker(failure.worker);
  proto->set_host(failure.host);
  if (failure.exit) *proto->mutable_exit() = ToProto(*failure.exit);
  proto->set_message(failure.message);
  for (const std::string& line : failure.last_lines) proto->add_last_lines(line);
  *proto->mutable_at() = ToProto(failure.at);
  proto->set_generation(failure.generation.value());
  proto->set_preempted_by(failure.preempted_by.value());
}

void FillRestarts(const core::Job& job, absl::Time now, v1::Job* proto) {
  for (const core::PastFailure& past : job.past) {
    v1::Failure* added = proto->add_past_failures();
    Fill(past.failure, added);
    if (past.counted_as) added->set_counted_as(ToProto(*past.counted_as));
  }
  proto->set_restarts(job.restart_count);
  for (const core::RestartBudget& budget : core::BudgetsOf(job, now)) {
    v1::RestartBudget* added = proto->add_restart_budgets();
    added->set_failure_class(ToProto(budget.failure_class));
    added->set_used(budget.used);
    added->set_limit(budget.limit);
    if (budget.window < absl::InfiniteDuration()) {
      *added->mutable_window() = ToProto(budget.window);
    }
  }
  if (job.state == core::JobState::kPending && job.not_before > absl::InfinitePast()) {
    *proto->mutable_not_before() = ToProto(job.not_before);
  }
  proto->set_not_restarted_because(job.not_restarted);
}

}  // namespace

v1::JobSpec ParseSpec(const std::string& payload) {
  v1::JobSpec spec;
  DP_CHECK(spec.ParseFromString(payload));  // serialized here before it was journalled
  return spec;
}

v1::JobState ToProto(core::JobState state) {
  switch (state) {
    case core::JobState::kPending:
      return v1::JOB_STATE_PENDING;
    case core::JobState::kStarting:
      return v1::JOB_STATE_STARTING;
    case core::JobState::kRunning:
      return v1::JOB_STATE_RUNNING;
    case core::JobState::kStopping:
      return v1::JOB_STATE_STOPPING;
    case core::JobState::kSucceeded:
      return v1::JOB_STATE_SUCCEEDED;
    case core::JobState::kFailed:
      return v1::JOB_STATE_FAILED;
    case core::JobState::kCancelled:
      return v1::JOB_STATE_CANCELLED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

v1::RankState ToProto(core::RankState state) {
  switch (state) {
    case core::RankState::kAssigned:
      return v1::RANK_STATE_ASSIGNED;
    case core::RankState::kStarted:
      return v1::RANK_STATE_STARTED;
    case core::RankState::kJoined:
      return v1::RANK_STATE_JOINED;
    case core::RankState::kExited:
      return v1::RANK_STATE_EXITED;
    case core::RankState::kReleased:
      return v1::RANK_STATE_RELEASED;
    case core::RankState::kLost:
      return v1::RANK_STATE_LOST;
  }
  return v1::RANK_STATE_UNSPECIFIED;
}

v1::FailureClass ToProto(core::FailureClass failure_class) {
  switch (failure_class) {
    case core::FailureClass::kUser:
      return v1::FAILURE_CLASS_USER;
    case core::FailureClass::kInfra:
      return v1::FAILURE_CLASS_INFRA;
    case core::FailureClass::kStartup:
      return v1::FAILURE_CLASS_STARTUP;
    case core::FailureClass::kCancel:
      return v1::FAILURE_CLASS_CANCEL;
    case core::FailureClass::kHang:
      return v1::FAILURE_CLASS_HANG;
    case core::FailureClass::kOom:
      return v1::FAILURE_CLASS_OOM;
    case core::FailureClass::kPreempt:
      return v1::FAILURE_CLASS_PREEMPT;
    case core::FailureClass::kTimeout:
      return v1::FAILURE_CLASS_TIMEOUT;
  }
  return v1::FAILURE_CLASS_UNSPECIFIED;
}

std::optional<core::FailureClass> FromProto(v1::FailureClass failure_class) {
  using core::FailureClass;
  for (const FailureClass each :
       {FailureClass::kUser, FailureClass::kInfra, FailureClass::kStartup, FailureClass::kCancel,
        FailureClass::kHang, FailureClass::kOom, FailureClass::kPreempt, FailureClass::kTimeout}) {
    if (ToProto(each) == failure_class) return each;
  }
  return std::nullopt;
}

v1::PendingCode ToProto(core::PendingReason::Code code) {
  using Code = core::PendingReason::Code;
  switch (code) {
    case Code::kResources:
      return v1::PENDING_CODE_RESOURCES;
    case Code::kPriority:
      return v1::PENDING_CODE_PRIORITY;
    case Code::kLimit:
      return v1::PENDING_CODE_LIMIT;
    case Code::kDependency:
      return v1::PENDING_CODE_DEPENDENCY;
    case Code::kHeld:
      return v1::PENDING_CODE_HELD;
    case Code::kUnsatisfiable:
      return v1::PENDING_CODE_UNSATISFIABLE;
    case Code::kStorePort:
      return v1::PENDING_CODE_STORE_PORT;
    case Code::kDrain:
      return v1::PENDING_CODE_DRAIN;
    case Code::kBackOff:
      return v1::PENDING_CODE_BACK_OFF;
    case Code::kPreemption:
      return v1::PENDING_CODE_PREEMPTION;
    case Code::kPreempted:
      return v1::PENDING_CODE_PREEMPTED;
  }
  return v1::PENDING_CODE_UNSPECIFIED;
}

v1::PendingReason ToProto(const core::PendingReason& reason) {
  v1::PendingReason proto;
  proto.set_code(ToProto(reason.code));
  proto.set_text(reason.text);
  for (const JobId job : reason.jobs) proto.add_jobs(job.value());
  for (const std::string& worker : reason.workers) proto.add_workers(worker);
  return proto;
}

v1::Job ToProto(const core::Job& job, const View& view) {
  v1::Job proto;
  proto.set_id(job.id.value());
  *proto.mutable_spec() = ParseSpec(job.spec.payload);
  proto.set_state(ToProto(job.state));
  proto.set_version(job.version.value());
  proto.set_generation(job.generation.value());
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    Fill(job.ranks[rank], static_cast<int>(rank), proto.add_ranks());
  }
  const auto waiting = view.waiting.find(job.id);
  if (job.state == core::JobState::kPending && waiting != view.waiting.end()) {
    proto.set_queue_position(waiting->second.position);
    for (const core::PendingReason& reason : waiting->second.reasons) {
      proto.add_pending_reasons(reason.text);
      *proto.add_waits_for() = ToProto(reason);
    }
  }
  if (job.state == core::JobState::kStarting) {
    const int64_t seconds = absl::ToInt64Seconds(view.now - *job.placed_at);
    proto.add_pending_reasons(absl::StrCat(core::WhyNotSealed(job), "; placed ", seconds, "s ago"));
  }
  if (job.failure) Fill(*job.failure, proto.mutable_failure());
  FillRestarts(job, view.now, &proto);
  *proto.mutable_submitted_at() = ToProto(job.submitted_at);
  SetTime(job.placed_at, &v1::Job::mutable_placed_at, &proto);
  SetTime(job.running_at, &v1::Job::mutable_running_at, &proto);
  SetTime(job.finished_at, &v1::Job::mutable_finished_at, &proto);
  if (const core::Checkpoint* latest = job.checkpoints.latest()) {
    *proto.mutable_checkpoint() = ToProto(*latest);
  }
  if (const core::Checkpoint* best = job.checkpoints.best()) {
    *proto.mutable_best_checkpoint() = ToProto(*best);
  }
  if (job.weights) *proto.mutable_weights() = ToProto(*job.weights);
  proto.set_stopped_early(job.stopped_early);
  if (job.handover.has_value()) {
    proto.set_handover(job.handover->reason);
    proto.set_preempted_by(job.handover->preempted_by.value());
  }
  SetTime(job.deadline, &v1::Job::mutable_deadline, &proto);
  proto.set_user(job.user);
  proto.set_owner(core::OwnerOf(job));
  proto.set_priority(job.priority);
  proto.set_held(job.held);
  proto.set_world_size(job.world_size());
  return proto;
}

void HideValues(v1::Job* job) {
  for (auto& [name, value] : *job->mutable_spec()->mutable_env()) value = "(hidden)";
}

}  // namespace dp::server
