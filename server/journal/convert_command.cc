#include "server/journal/convert_command.h"

#include <string>
#include <utility>

#include "base/overloaded.h"
#include "proto/convert/store_operations.h"
#include "server/convert/convert_job.h"
#include "server/convert/convert_values.h"
#include "server/journal/convert_handover.h"
#include "server/journal/convert_scheduling.h"

namespace dp::server {
namespace {

using Record = journal::JournalRecord;

// Every field of a command is written, even if nothing reads the field today: a field missing from
// the journal can never be replayed.

void Fill(const core::RankKey& key, journal::RankKey* proto) {
  proto->set_job(key.job.value());
  proto->set_generation(key.generation.value());
  proto->set_rank(key.rank);
}

void Fill(const core::StartEpoch& start, journal::StartEpoch* proto) {
  proto->set_key_bytes(start.store_limits.key_bytes);
  proto->set_value_bytes(start.store_limits.value_bytes);
  proto->set_keys(start.store_limits.keys);
  proto->set_total_bytes(start.store_limits.total_bytes);
  proto->set_kept_answers_bounded(start.kept_answers == core::KeptAnswers::kBounded);
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
  proto->set_gpu_training(submit.spec.gpu_training);
  if (submit.spec.detect_within < absl::InfiniteDuration()) {
    *proto->mutable_detect_within() = ToProto(submit.spec.detect_within);
  }
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
  proto->set_trains_on_gpus(worker.trains_on_gpus);
}

void Fill(const core::LoseWorker& lose, journal::LoseWorker* proto) {
  proto->set_worker(lose.worker.value());
  proto->set_incarnation(lose.incarnation.value());
  proto->set_reason(lose.reason);
}

void Fill(const core::LeaveWorker& leave, journal::LeaveWorker* proto) {
  proto->set_worker(leave.worker.value());
  proto->set_incarnation(leave.incarnation.value());
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

void Fill(const core::GiveUpRank& give_up, journal::GiveUpRank* proto) {
  Fill(give_up.rank, proto->mutable_rank());
  proto->set_reason(give_up.reason);
}

void Fill(const core::AccusePeers& accuse, journal::AccusePeers* proto) {
  Fill(accuse.rank, proto->mutable_rank());
  proto->mutable_missing()->Add(accuse.missing.begin(), accuse.missing.end());
  proto->set_error(accuse.error);
  proto->set_insist(accuse.insist);
  proto->mutable_silent()->Add(accuse.silent.begin(), accuse.silent.end());
}

void Fill(const core::StoreBatch& batch, journal::StoreBatch* proto) {
  proto->set_job(batch.job.value());
  proto->set_generation(batch.generation.value());
  proto->set_client(batch.client);
  proto->set_sequence(batch.sequence);
  OperationsToProto(batch.operations, proto->mutable_operations());
  proto->mutable_groups()->Add(batch.groups.begin(), batch.groups.end());
}

void Fill(const core::RegisterCheckpoint& checkpoint, journal::RegisterCheckpoint* proto) {
  Fill(checkpoint.rank, proto->mutable_rank());
  proto->set_step(checkpoint.step);
  proto->set_path(checkpoint.path);
  proto->set_sha256(checkpoint.sha256);
  proto->set_bytes(checkpoint.bytes);
  proto->set_keep(checkpoint.keep);
}

void Fill(const core::RegisterWeights& weights, journal::RegisterWeights* proto) {
  Fill(weights.rank, proto->mutable_rank());
  proto->set_path(weights.path);
  proto->set_sha256(weights.sha256);
  proto->set_bytes(weights.bytes);
}

void Fill(const core::AskHandover& ask, journal::AskHandover* proto) {
  proto->set_job(ask.job.value());
  proto->set_reason(ask.reason);
  proto->set_cause(ToProto(ask.cause));
  proto->set_preempted_by(ask.preempted_by.value());
  if (ask.leave_by < absl::InfiniteFuture()) *proto->mutable_leave_by() = ToProto(ask.leave_by);
}

void Fill(const core::RetryJob& retry, journal::RetryJob* proto) {
  proto->set_job(retry.job.value());
  proto->set_generation(retry.generation.value());
  *proto->mutable_not_before() = ToProto(retry.not_before);
  if (retry.counted_as) proto->set_counted_as(ToProto(*retry.counted_as));
}

void Fill(const core::FinishJob& finish, journal::FinishJob* proto) {
  proto->set_job(finish.job.value());
  proto->set_generation(finish.generation.value());
  proto->set_reason(finish.reason);
}

}  // namespace

Record ToRecord(const core::Command& command) {
  Record record;
  *record.mutable_at() = ToProto(command.at);
  std::visit(
      Overloaded{
          [&](const core::StartEpoch& start) {
            Fill(start, record.mutable_start_epoch());
            if (start.version > 1) record.set_version(start.version);
          },
          [&](const core::SubmitJob& submit) { Fill(submit, record.mutable_submit_job()); },
          [&](const core::CancelJob& cancel) {
            record.mutable_cancel_job()->set_job(cancel.job.value());
          },
          [&](const core::PlaceJob& place) { Fill(place, record.mutable_place_job()); },
          [&](const core::RegisterWorker& worker) {
            Fill(worker, record.mutable_register_worker());
          },
          [&](const core::LoseWorker& lose) {
            Fill(lose, record.mutable_lose_worker());
            if (lose.version > 1) record.set_version(lose.version);
          },
          [&](const core::LeaveWorker& leave) { Fill(leave, record.mutable_leave_worker()); },
          [&](const core::ReportRank& report) {
            Fill(report, record.mutable_report_rank());
            if (report.version > 1) record.set_version(report.version);
          },
          [&](const core::JoinWorld& join) {
            Fill(join.rank, record.mutable_join_world()->mutable_rank());
            record.mutable_join_world()->set_tells_first_step(join.tells_first_step);
          },
          [&](const core::CompleteFirstStep& step) {
            Fill(step.rank, record.mutable_complete_first_step()->mutable_rank());
          },
          [&](const core::AccusePeers& accuse) { Fill(accuse, record.mutable_accuse_peers()); },
          [&](const core::StoreBatch& batch) { Fill(batch, record.mutable_store_batch()); },
          [&](const core::RegisterCheckpoint& checkpoint) {
            Fill(checkpoint, record.mutable_register_checkpoint());
          },
          [&](const core::RegisterWeights& weights) {
            Fill(weights, record.mutable_register_weights());
          },
          [&](const core::AskHandover& ask) {
            Fill(ask, record.mutable_ask_handover());
            if (ask.version > 1) record.set_version(ask.version);
          },
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
            record.mutable_undrain_worker()->set_reason(undrain.reason);
          },
          [&](const core::GiveUpRank& give_up) { Fill(give_up, record.mutable_give_up_rank()); }},
      command.action);
  return record;
}

}  // namespace dp::server
