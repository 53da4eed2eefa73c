#include "server/shell/convert_command.h"

#include <string>
#include <utility>

#include "base/overloaded.h"
#include "base/status.h"
#include "proto/convert/store_operations.h"
#include "server/shell/convert_handover.h"
#include "server/shell/convert_job.h"
#include "server/shell/convert_scheduling.h"
#include "server/shell/convert_values.h"

namespace dp::server {
namespace {

using Record = journal::JournalRecord;

// Every field of a command is written, those that nothing reads today too: what is missing from the
// journal can never be replayed.

void Fill(const core::RankKey& key, journal::RankKey* proto) {
  proto->set_job(key.job.value());
  proto->set_generation(key.generation.value());
  proto->set_rank(key.rank);
}

core::RankKey ToKey(const journal::RankKey& proto) {
  return {JobId(proto.job()), Generation(proto.generation()), proto.rank()};
}

void Fill(const core::StartEpoch& start, journal::StartEpoch* proto) {
  proto->set_key_bytes(start.store_limits.key_bytes);
  proto->set_value_bytes(start.store_limits.value_bytes);
  proto->set_keys(start.store_limits.keys);
  proto->set_total_bytes(start.store_limits.total_bytes);
}

core::StartEpoch ToCommand(const journal::StartEpoch& proto) {
  KeyValueLimits limits = KeyValueLimits::None();
  if (proto.has_key_bytes()) limits.key_bytes = proto.key_bytes();
  if (proto.has_value_bytes()) limits.value_bytes = proto.value_bytes();
  if (proto.has_keys()) limits.keys = proto.keys();
  if (proto.has_total_bytes()) limits.total_bytes = proto.total_bytes();
  return {limits};
}

void Fill(const core::RestartLimits& limits, journal::RestartLimits* proto) {
  proto->set_user(limits.user);
  proto->set_infra(limits.infra);
  proto->set_hang(limits.hang);
  if (limits.oom.has_value()) proto->set_oom(*limits.oom);
  proto->set_startup(limits.startup);
  *proto->mutable_window() = ToProto(limits.window);
  proto->mutable_never_exit_codes()->Add(limits.never_exit_codes.begin(),
                                         limits.never_exit_codes.end());
  proto->mutable_always_exit_codes()->Add(limits.always_exit_codes.begin(),
                                          limits.always_exit_codes.end());
}

core::RestartLimits ToLimits(const journal::RestartLimits& proto) {
  core::RestartLimits limits{
      .user = proto.user(),
      .infra = proto.infra(),
      .hang = proto.hang(),
      .oom = {},
      .startup = proto.startup(),
      .window = FromProto(proto.window()),
      .never_exit_codes = {proto.never_exit_codes().begin(), proto.never_exit_codes().end()},
      .always_exit_codes = {proto.always_exit_codes().begin(), proto.always_exit_codes().end()}};
  if (proto.has_oom()) limits.oom = proto.oom();
  return limits;
}

void Fill(const core::SubmitJob& submit, journal::SubmitJob* proto) {
  proto->set_request_id(submit.request_id);
  proto->set_name(submit.spec.name);
  proto->set_ranks(submit.spec.ranks);
  proto->set_payload(submit.spec.payload);
  proto->set_store_port(submit.spec.store_port);
  proto->set_nodes(submit.spec.nodes);
  proto->set_joins_by_running(submit.spec.joins_by_running);
  if (submit.spec.restart) Fill(*submit.spec.restart, proto->mutable_restart());
  proto->set_nodes_max(submit.spec.nodes_max);
  *proto->mutable_scheduling() = ToProto(submit.spec.scheduling);
  if (submit.spec.join_within < absl::InfiniteDuration()) {
    *proto->mutable_join_within() = ToProto(submit.spec.join_within);
  }
  proto->set_user(submit.user);
  if (submit.spec.grace != core::JobSpec().grace) {
    *proto->mutable_grace() = ToProto(submit.spec.grace);
  }
  proto->set_saves(submit.spec.saves);
}

absl::StatusOr<core::Action> ToCommand(const journal::SubmitJob& proto) {
  core::SubmitJob submit{.request_id = proto.request_id(), .spec = {}, .user = proto.user()};
  submit.spec = {.name = proto.name(),
                 .ranks = proto.ranks(),
                 .payload = proto.payload(),
                 .store_port = proto.store_port(),
                 .nodes = proto.nodes(),
                 .joins_by_running = proto.joins_by_running(),
                 .nodes_max = proto.nodes_max(),
                 .saves = proto.saves()};
  if (proto.has_grace()) submit.spec.grace = FromProto(proto.grace());
  if (proto.has_restart()) submit.spec.restart = ToLimits(proto.restart());
  if (proto.has_join_within()) submit.spec.join_within = FromProto(proto.join_within());
  if (!proto.has_scheduling()) return submit;
  DP_ASSIGN_OR_RETURN(submit.spec.scheduling, FromProto(proto.scheduling()));
  return submit;
}

void Fill(const core::PlaceJob& place, journal::PlaceJob* proto) {
  proto->set_job(place.job.value());
  proto->set_store_port(place.store_port);
  for (const core::PlaceJob::Slot& slot : place.slots) {
    journal::Slot* added = proto->add_slots();
    added->set_worker(slot.worker.value());
    added->set_slot(slot.slot);
  }
}

core::PlaceJob ToCommand(const journal::PlaceJob& proto) {
  core::PlaceJob place{JobId(proto.job()), {}, proto.store_port()};
  for (const journal::Slot& slot : proto.slots()) {
    place.slots.push_back({WorkerId(slot.worker()), slot.slot()});
  }
  return place;
}

void Fill(const core::RegisterWorker& worker, journal::RegisterWorker* proto) {
  proto->set_name(worker.name);
  proto->set_host(worker.host);
  proto->set_address(worker.address);
  proto->set_incarnation(worker.incarnation.value());
  proto->set_slots(worker.slots);
  proto->mutable_ports()->Add(worker.ports.begin(), worker.ports.end());
  proto->set_gpus(worker.gpus);
  proto->mutable_labels()->insert(worker.labels.begin(), worker.labels.end());
  proto->set_interface(worker.interface);
  proto->set_process_tracking(worker.process_tracking);
}

core::RegisterWorker ToCommand(const journal::RegisterWorker& proto) {
  return {proto.name(),      proto.host(),
          proto.address(),   Incarnation(proto.incarnation()),
          proto.slots(),     {proto.ports().begin(), proto.ports().end()},
          proto.gpus(),      {proto.labels().begin(), proto.labels().end()},
          proto.interface(), proto.process_tracking()};
}

void Fill(const core::LoseWorker& lose, journal::LoseWorker* proto) {
  proto->set_worker(lose.worker.value());
  proto->set_incarnation(lose.incarnation.value());
  proto->set_reason(lose.reason);
}

core::LoseWorker ToCommand(const journal::LoseWorker& proto) {
  return {WorkerId(proto.worker()), Incarnation(proto.incarnation()), proto.reason()};
}

void Fill(const core::LeaveWorker& leave, journal::LeaveWorker* proto) {
  proto->set_worker(leave.worker.value());
  proto->set_incarnation(leave.incarnation.value());
}

core::LeaveWorker ToCommand(const journal::LeaveWorker& proto) {
  return {WorkerId(proto.worker()), Incarnation(proto.incarnation())};
}

void Fill(const core::ReportSlots& report, journal::ReportSlots* proto) {
  proto->set_worker(report.worker.value());
  proto->set_incarnation(report.incarnation.value());
  proto->set_number(report.number);
  for (const auto& [slot, reason] : report.unhealthy) {
    journal::UnhealthySlot* unhealthy = proto->add_unhealthy();
    unhealthy->set_slot(slot);
    unhealthy->set_reason(reason);
  }
}

core::ReportSlots ToCommand(const journal::ReportSlots& proto) {
  core::ReportSlots report{
      WorkerId(proto.worker()), Incarnation(proto.incarnation()), proto.number(), {}};
  for (const journal::UnhealthySlot& slot : proto.unhealthy()) {
    report.unhealthy[slot.slot()] = slot.reason();
  }
  return report;
}

void Fill(const core::ReportRank& report, journal::ReportRank* proto) {
  using What = core::ReportRank::What;
  proto->set_worker(report.worker.value());
  proto->set_incarnation(report.incarnation.value());
  Fill(report.rank, proto->mutable_rank());
  proto->set_what(report.what == What::kStarted  ? journal::ReportRank::WHAT_STARTED
                  : report.what == What::kExited ? journal::ReportRank::WHAT_EXITED
                                                 : journal::ReportRank::WHAT_RELEASED);
  proto->set_pid(report.pid);
  *proto->mutable_exit() = ToProto(report.exit);
  proto->set_error(report.error);
  for (const std::string& line : report.last_lines) proto->add_last_lines(line);
  proto->set_stopped(report.stopped);
  proto->set_stop_reason(report.stop_reason);
  proto->set_oom(report.oom);
}

absl::StatusOr<core::Action> ToCommand(const journal::ReportRank& proto) {
  using What = core::ReportRank::What;
  core::ReportRank report{.worker = WorkerId(proto.worker()),
                          .incarnation = Incarnation(proto.incarnation()),
                          .rank = ToKey(proto.rank()),
                          .pid = proto.pid(),
                          .exit = FromProto(proto.exit()),
                          .error = proto.error(),
                          .last_lines = {proto.last_lines().begin(), proto.last_lines().end()},
                          .stopped = proto.stopped(),
                          .stop_reason = proto.stop_reason(),
                          .oom = proto.oom()};
  switch (proto.what()) {
    case journal::ReportRank::WHAT_STARTED:
      report.what = What::kStarted;
      return report;
    case journal::ReportRank::WHAT_EXITED:
      report.what = What::kExited;
      return report;
    case journal::ReportRank::WHAT_RELEASED:
      report.what = What::kReleased;
      return report;
    // Without it the rank's place in its life is unknown, and whatever is chosen for it would make
    // another state than the one that was acknowledged.
    default:
      return absl::DataLossError("a report says nothing of a rank that this release knows");
  }
}

void Fill(const core::GiveUpRank& give_up, journal::GiveUpRank* proto) {
  Fill(give_up.rank, proto->mutable_rank());
  proto->set_reason(give_up.reason);
}

void Fill(const core::AccusePeers& accuse, journal::AccusePeers* proto) {
  Fill(accuse.rank, proto->mutable_rank());
  proto->mutable_missing()->Add(accuse.missing.begin(), accuse.missing.end());
  proto->set_error(accuse.error);
  proto->set_insist(accuse.insist);
}

core::AccusePeers ToCommand(const journal::AccusePeers& proto) {
  return {ToKey(proto.rank()),
          {proto.missing().begin(), proto.missing().end()},
          proto.error(),
          proto.insist()};
}

void Fill(const core::StoreBatch& batch, journal::StoreBatch* proto) {
  proto->set_job(batch.job.value());
  proto->set_generation(batch.generation.value());
  proto->set_client(batch.client);
  proto->set_sequence(batch.sequence);
  OperationsToProto(batch.operations, proto->mutable_operations());
  proto->mutable_groups()->Add(batch.groups.begin(), batch.groups.end());
}

absl::StatusOr<core::Action> ToCommand(const journal::StoreBatch& proto) {
  DP_ASSIGN_OR_RETURN(std::vector<StoreOperation> operations,
                      OperationsFromProto(proto.operations()));
  return core::StoreBatch{JobId(proto.job()),    Generation(proto.generation()),
                          proto.client(),        proto.sequence(),
                          std::move(operations), {proto.groups().begin(), proto.groups().end()}};
}

void Fill(const core::RegisterCheckpoint& checkpoint, journal::RegisterCheckpoint* proto) {
  Fill(checkpoint.rank, proto->mutable_rank());
  proto->set_step(checkpoint.step);
  proto->set_path(checkpoint.path);
  proto->set_sha256(checkpoint.sha256);
  proto->set_bytes(checkpoint.bytes);
  proto->set_keep(checkpoint.keep);
}

core::RegisterCheckpoint ToCommand(const journal::RegisterCheckpoint& proto) {
  return {ToKey(proto.rank()), proto.step(),  proto.path(),
          proto.sha256(),      proto.bytes(), proto.keep()};
}

void Fill(const core::RegisterWeights& weights, journal::RegisterWeights* proto) {
  Fill(weights.rank, proto->mutable_rank());
  proto->set_path(weights.path);
  proto->set_sha256(weights.sha256);
  proto->set_bytes(weights.bytes);
}

core::RegisterWeights ToCommand(const journal::RegisterWeights& proto) {
  return {ToKey(proto.rank()), proto.path(), proto.sha256(), proto.bytes()};
}

void Fill(const core::AskHandover& ask, journal::AskHandover* proto) {
  proto->set_job(ask.job.value());
  proto->set_reason(ask.reason);
  proto->set_cause(ToProto(ask.cause));
  proto->set_preempted_by(ask.preempted_by.value());
  if (ask.leave_by < absl::InfiniteFuture()) *proto->mutable_leave_by() = ToProto(ask.leave_by);
}

absl::StatusOr<core::Action> ToCommand(const journal::AskHandover& proto) {
  core::AskHandover ask{JobId(proto.job()), proto.reason()};
  DP_ASSIGN_OR_RETURN(ask.cause, FromProto(proto.cause()));
  ask.preempted_by = JobId(proto.preempted_by());
  if (proto.has_leave_by()) ask.leave_by = FromProto(proto.leave_by());
  return ask;
}

void Fill(const core::RetryJob& retry, journal::RetryJob* proto) {
  proto->set_job(retry.job.value());
  proto->set_generation(retry.generation.value());
  *proto->mutable_not_before() = ToProto(retry.not_before);
  if (retry.counted_as) proto->set_counted_as(ToProto(*retry.counted_as));
}

absl::StatusOr<core::Action> ToCommand(const journal::RetryJob& proto) {
  core::RetryJob retry{
      JobId(proto.job()), Generation(proto.generation()), FromProto(proto.not_before()), {}};
  if (proto.counted_as() == v1::FAILURE_CLASS_UNSPECIFIED) return retry;
  retry.counted_as = FromProto(proto.counted_as());
  if (retry.counted_as.has_value()) return retry;
  return absl::DataLossError("a retry is paid for by a budget that this release does not know");
}

void Fill(const core::FinishJob& finish, journal::FinishJob* proto) {
  proto->set_job(finish.job.value());
  proto->set_generation(finish.generation.value());
  proto->set_reason(finish.reason);
}

core::FinishJob ToCommand(const journal::FinishJob& proto) {
  return {JobId(proto.job()), Generation(proto.generation()), proto.reason()};
}

absl::StatusOr<core::Action> ToAction(const Record& record) {
  switch (record.action_case()) {
    case Record::kStartEpoch:
      return ToCommand(record.start_epoch());
    case Record::kSubmitJob:
      return ToCommand(record.submit_job());
    case Record::kCancelJob:
      return core::CancelJob{JobId(record.cancel_job().job())};
    case Record::kPlaceJob:
      return ToCommand(record.place_job());
    case Record::kRegisterWorker:
      return ToCommand(record.register_worker());
    case Record::kLoseWorker:
      return ToCommand(record.lose_worker());
    case Record::kLeaveWorker:
      return ToCommand(record.leave_worker());
    case Record::kReportRank:
      return ToCommand(record.report_rank());
    case Record::kJoinWorld:
      return core::JoinWorld{ToKey(record.join_world().rank())};
    case Record::kAccusePeers:
      return ToCommand(record.accuse_peers());
    case Record::kStoreBatch:
      return ToCommand(record.store_batch());
    case Record::kRegisterCheckpoint:
      return ToCommand(record.register_checkpoint());
    case Record::kRegisterWeights:
      return ToCommand(record.register_weights());
    case Record::kAskHandover:
      return ToCommand(record.ask_handover());
    case Record::kRetryJob:
      return ToCommand(record.retry_job());
    case Record::kFinishJob:
      return ToCommand(record.finish_job());
    case Record::kHoldJob:
      return core::HoldJob{JobId(record.hold_job().job())};
    case Record::kReleaseJob:
      return core::ReleaseJob{JobId(record.release_job().job())};
    case Record::kPrioritizeJob:
      return core::PrioritizeJob{JobId(record.prioritize_job().job()),
                                 record.prioritize_job().priority()};
    case Record::kRequeueJob:
      return core::RequeueJob{
          JobId(record.requeue_job().job()), Generation(record.requeue_job().generation()),
          record.requeue_job().reason(), JobId(record.requeue_job().preempted_by())};
    case Record::kExpireJob:
      return core::ExpireJob{JobId(record.expire_job().job())};
    case Record::kForgetJob:
      return core::ForgetJob{JobId(record.forget_job().job())};
    case Record::kDrainWorker:
      return core::DrainWorker{record.drain_worker().worker(), record.drain_worker().reason(),
                               record.drain_worker().hand_over()};
    case Record::kUndrainWorker:
      return core::UndrainWorker{record.undrain_worker().worker()};
    case Record::kGiveUpRank:
      return core::GiveUpRank{ToKey(record.give_up_rank().rank()), record.give_up_rank().reason()};
    case Record::kReportSlots:
      return ToCommand(record.report_slots());
    // A later release's command too: protobuf keeps a field that it does not know, and sets
    // nothing.
    case Record::ACTION_NOT_SET:
      break;
  }
  return absl::DataLossError("a record holds no command that this release knows");
}

}  // namespace

Record ToRecord(const core::Command& command) {
  Record record;
  *record.mutable_at() = ToProto(command.at);
  std::visit(
      Overloaded{
          [&](const core::StartEpoch& start) { Fill(start, record.mutable_start_epoch()); },
          [&](const core::SubmitJob& submit) { Fill(submit, record.mutable_submit_job()); },
          [&](const core::CancelJob& cancel) {
            record.mutable_cancel_job()->set_job(cancel.job.value());
          },
          [&](const core::PlaceJob& place) { Fill(place, record.mutable_place_job()); },
          [&](const core::RegisterWorker& worker) {
            Fill(worker, record.mutable_register_worker());
          },
          [&](const core::LoseWorker& lose) { Fill(lose, record.mutable_lose_worker()); },
          [&](const core::LeaveWorker& leave) { Fill(leave, record.mutable_leave_worker()); },
          [&](const core::ReportRank& report) { Fill(report, record.mutable_report_rank()); },
          [&](const core::JoinWorld& join) {
            Fill(join.rank, record.mutable_join_world()->mutable_rank());
          },
          [&](const core::AccusePeers& accuse) { Fill(accuse, record.mutable_accuse_peers()); },
          [&](const core::StoreBatch& batch) { Fill(batch, record.mutable_store_batch()); },
          [&](const core::RegisterCheckpoint& checkpoint) {
            Fill(checkpoint, record.mutable_register_checkpoint());
          },
          [&](const core::RegisterWeights& weights) {
            Fill(weights, record.mutable_register_weights());
          },
          [&](const core::AskHandover& ask) { Fill(ask, record.mutable_ask_handover()); },
          [&](const core::RetryJob& retry) { Fill(retry, record.mutable_retry_job()); },
          [&](const core::FinishJob& finish) { Fill(finish, record.mutable_finish_job()); },
          [&](const core::HoldJob& hold) { record.mutable_hold_job()->set_job(hold.job.value()); },
          [&](const core::ReleaseJob& release) {
            record.mutable_release_job()->set_job(release.job.value());
          },
          [&](const core::PrioritizeJob& prioritize) {
            record.mutable_prioritize_job()->set_job(prioritize.job.value());
            record.mutable_prioritize_job()->set_priority(prioritize.priority);
          },
          [&](const core::RequeueJob& requeue) {
            record.mutable_requeue_job()->set_job(requeue.job.value());
            record.mutable_requeue_job()->set_generation(requeue.generation.value());
            record.mutable_requeue_job()->set_reason(requeue.reason);
            record.mutable_requeue_job()->set_preempted_by(requeue.preempted_by.value());
          },
          [&](const core::ExpireJob& expire) {
            record.mutable_expire_job()->set_job(expire.job.value());
          },
          [&](const core::ForgetJob& forget) {
            record.mutable_forget_job()->set_job(forget.job.value());
          },
          [&](const core::ReportSlots& report) { Fill(report, record.mutable_report_slots()); },
          [&](const core::DrainWorker& drain) {
            record.mutable_drain_worker()->set_worker(drain.worker);
            record.mutable_drain_worker()->set_reason(drain.reason);
            record.mutable_drain_worker()->set_hand_over(drain.hand_over);
          },
          [&](const core::UndrainWorker& undrain) {
            record.mutable_undrain_worker()->set_worker(undrain.worker);
          },
          [&](const core::GiveUpRank& give_up) { Fill(give_up, record.mutable_give_up_rank()); }},
      command.action);
  return record;
}

absl::StatusOr<core::Command> FromRecord(const Record& record) {
  DP_ASSIGN_OR_RETURN(core::Action action, ToAction(record));
  return core::Command{FromProto(record.at()), std::move(action)};
}

}  // namespace dp::server
