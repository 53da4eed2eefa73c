#include "server/journal/convert_command.h"

#include <string>
#include <utility>

#include "base/status.h"
#include "proto/convert/store_operations.h"
#include "server/convert/convert_job.h"
#include "server/convert/convert_values.h"
#include "server/journal/command_versions.h"
#include "server/journal/convert_handover.h"
#include "server/journal/convert_scheduling.h"

namespace dp::server {
namespace {

using Record = journal::JournalRecord;

core::RankKey ToKey(const journal::RankKey& proto) {
  return {JobId(proto.job()), Generation(proto.generation()), proto.rank()};
}

core::StartEpoch ToCommand(const journal::StartEpoch& proto, uint32_t version) {
  KeyValueLimits limits = KeyValueLimits::None();
  if (proto.has_key_bytes()) limits.key_bytes = proto.key_bytes();
  if (proto.has_value_bytes()) limits.value_bytes = proto.value_bytes();
  if (proto.has_keys()) limits.keys = proto.keys();
  if (proto.has_total_bytes()) limits.total_bytes = proto.total_bytes();
  return {limits, KeptAnswersOf(proto), version};
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
  submit.spec.gpu_training = proto.gpu_training();
  if (proto.has_detect_within()) submit.spec.detect_within = FromProto(proto.detect_within());
  if (proto.has_grace()) submit.spec.grace = FromProto(proto.grace());
  if (proto.has_restart()) submit.spec.restart = ToLimits(proto.restart());
  if (proto.has_join_within()) submit.spec.join_within = FromProto(proto.join_within());
  if (!proto.has_scheduling()) return submit;
  DP_ASSIGN_OR_RETURN(submit.spec.scheduling, FromProto(proto.scheduling()));
  return submit;
}

core::PlaceJob ToCommand(const journal::PlaceJob& proto) {
  core::PlaceJob place{JobId(proto.job()), {}, proto.store_port()};
  for (const journal::Slot& slot : proto.slots()) {
    place.slots.push_back({WorkerId(slot.worker()), slot.slot()});
  }
  return place;
}

core::RegisterWorker ToCommand(const journal::RegisterWorker& proto) {
  return {proto.name(),          proto.host(),
          proto.address(),       Incarnation(proto.incarnation()),
          proto.slots(),         {proto.ports().begin(), proto.ports().end()},
          proto.gpus(),          {proto.labels().begin(), proto.labels().end()},
          proto.interface(),     proto.process_tracking(),
          proto.trains_on_gpus()};
}

core::LoseWorker ToCommand(const journal::LoseWorker& proto, uint32_t version) {
  return {WorkerId(proto.worker()), Incarnation(proto.incarnation()), proto.reason(), version};
}

core::LeaveWorker ToCommand(const journal::LeaveWorker& proto) {
  return {WorkerId(proto.worker()), Incarnation(proto.incarnation())};
}

core::ReportSlots ToCommand(const journal::ReportSlots& proto) {
  core::ReportSlots report{
      WorkerId(proto.worker()), Incarnation(proto.incarnation()), proto.number(), {}};
  for (const journal::UnhealthySlot& slot : proto.unhealthy()) {
    report.unhealthy[slot.slot()] = slot.reason();
  }
  return report;
}

absl::StatusOr<core::Action> ToCommand(const journal::ReportRank& proto, uint32_t version) {
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
                          .oom = proto.oom(),
                          .version = version};
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
    // Without this field the rank's state is unknown. Any guess could make a state that differs
    // from the acknowledged one.
    default:
      return absl::DataLossError("a report says nothing of a rank that this release knows");
  }
}

core::AccusePeers ToCommand(const journal::AccusePeers& proto) {
  return {ToKey(proto.rank()),
          {proto.missing().begin(), proto.missing().end()},
          proto.error(),
          proto.insist(),
          {proto.silent().begin(), proto.silent().end()}};
}

absl::StatusOr<core::Action> ToCommand(const journal::StoreBatch& proto) {
  DP_ASSIGN_OR_RETURN(std::vector<StoreOperation> operations,
                      OperationsFromProto(proto.operations()));
  return core::StoreBatch{JobId(proto.job()),    Generation(proto.generation()),
                          proto.client(),        proto.sequence(),
                          std::move(operations), {proto.groups().begin(), proto.groups().end()}};
}

core::RegisterCheckpoint ToCommand(const journal::RegisterCheckpoint& proto) {
  return {ToKey(proto.rank()), proto.step(),  proto.path(),
          proto.sha256(),      proto.bytes(), proto.keep()};
}

core::RegisterWeights ToCommand(const journal::RegisterWeights& proto) {
  return {ToKey(proto.rank()), proto.path(), proto.sha256(), proto.bytes()};
}

absl::StatusOr<core::Action> ToCommand(const journal::AskHandover& proto, uint32_t version) {
  core::AskHandover ask{JobId(proto.job()), proto.reason()};
  ask.version = version;
  DP_ASSIGN_OR_RETURN(ask.cause, FromProto(proto.cause()));
  ask.preempted_by = JobId(proto.preempted_by());
  if (proto.has_leave_by()) ask.leave_by = FromProto(proto.leave_by());
  return ask;
}

absl::StatusOr<core::Action> ToCommand(const journal::RetryJob& proto) {
  core::RetryJob retry{
      JobId(proto.job()), Generation(proto.generation()), FromProto(proto.not_before()), {}};
  if (proto.counted_as() == v1::FAILURE_CLASS_UNSPECIFIED) return retry;
  retry.counted_as = FromProto(proto.counted_as());
  if (retry.counted_as.has_value()) return retry;
  return absl::DataLossError("a retry is paid for by a budget that this release does not know");
}

core::FinishJob ToCommand(const journal::FinishJob& proto) {
  return {JobId(proto.job()), Generation(proto.generation()), proto.reason()};
}

absl::StatusOr<core::Action> ToAction(const Record& record) {
  switch (record.action_case()) {
    case Record::kStartEpoch:
      return ToCommand(record.start_epoch(), VersionOf(record));
    case Record::kSubmitJob:
      return ToCommand(record.submit_job());
    case Record::kCancelJob:
      return core::CancelJob{JobId(record.cancel_job().job())};
    case Record::kPlaceJob:
      return ToCommand(record.place_job());
    case Record::kRegisterWorker:
      return ToCommand(record.register_worker());
    case Record::kLoseWorker:
      return ToCommand(record.lose_worker(), VersionOf(record));
    case Record::kLeaveWorker:
      return ToCommand(record.leave_worker());
    case Record::kReportRank:
      return ToCommand(record.report_rank(), VersionOf(record));
    case Record::kJoinWorld:
      return core::JoinWorld{ToKey(record.join_world().rank()),
                             record.join_world().tells_first_step()};
    case Record::kCompleteFirstStep:
      return core::CompleteFirstStep{ToKey(record.complete_first_step().rank())};
    case Record::kAccusePeers:
      return ToCommand(record.accuse_peers());
    case Record::kStoreBatch:
      return ToCommand(record.store_batch());
    case Record::kRegisterCheckpoint:
      return ToCommand(record.register_checkpoint());
    case Record::kRegisterWeights:
      return ToCommand(record.register_weights());
    case Record::kAskHandover:
      return ToCommand(record.ask_handover(), VersionOf(record));
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
      return core::UndrainWorker{record.undrain_worker().worker(),
                                 record.undrain_worker().reason()};
    case Record::kGiveUpRank:
      return core::GiveUpRank{ToKey(record.give_up_rank().rank()), record.give_up_rank().reason()};
    case Record::kReportSlots:
      return ToCommand(record.report_slots());
    // Includes a command of a later release: protobuf keeps the unknown field, and leaves the
    // action unset.
    case Record::ACTION_NOT_SET:
      break;
  }
  return absl::DataLossError("a record holds no command that this release knows");
}

}  // namespace

core::KeptAnswers KeptAnswersOf(const journal::StartEpoch& start) {
  return start.kept_answers_bounded() ? core::KeptAnswers::kBounded : core::KeptAnswers::kWhole;
}

absl::StatusOr<core::Command> FromRecord(const Record& record) {
  DP_RETURN_IF_ERROR(CheckVersion(record));
  DP_ASSIGN_OR_RETURN(core::Action action, ToAction(record));
  return core::Command{FromProto(record.at()), std::move(action)};
}

}  // namespace dp::server
