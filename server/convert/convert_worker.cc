#include "server/convert/convert_worker.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/takes_secrets.h"
#include "base/utf8.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_job.h"

namespace dp::server {
namespace {

absl::StatusOr<core::ReportRank::What> ToWhat(v1::RankState state) {
  switch (state) {
    case v1::RANK_STATE_STARTED:
      return core::ReportRank::What::kStarted;
    case v1::RANK_STATE_EXITED:
      return core::ReportRank::What::kExited;
    case v1::RANK_STATE_RELEASED:
      return core::ReportRank::What::kReleased;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("state is ", v1::RankState_Name(state),
                       "; a worker reports STARTED, EXITED or RELEASED"));
  }
}

v1::WorkerState StateOf(const core::Worker& worker) {
  if (!worker.ready()) return v1::WORKER_STATE_LOST;
  if (worker.leaving) return v1::WORKER_STATE_LEAVING;
  if (!worker.drain.has_value()) return v1::WORKER_STATE_READY;
  return worker.jobs().empty() ? v1::WORKER_STATE_DRAINED : v1::WORKER_STATE_DRAINING;
}

void Fill(const core::HostRanks& host, v1::HostRanks* proto) {
  proto->set_address(host.address);
  proto->mutable_slots()->Add(host.slots.begin(), host.slots.end());
  proto->mutable_ports()->Add(host.ports.begin(), host.ports.end());
}

void Fill(const KeyValueLimits& limits, v1::StoreLimits* proto) {
  proto->set_key_bytes(limits.key_bytes);
  proto->set_value_bytes(limits.value_bytes);
}

}  // namespace

v1::Worker ToProto(const core::Worker& worker, const View& view) {
  v1::Worker proto;
  proto.set_id(worker.id.value());
  proto.set_name(worker.name);
  proto.set_host(worker.host);
  proto.set_address(worker.address);
  proto.set_state(StateOf(worker));
  proto.set_slots(static_cast<int>(worker.slots.size()));
  proto.set_free_slots(static_cast<int>(worker.free_slots().size()));
  for (const JobId job : worker.jobs()) proto.add_jobs(job.value());
  proto.set_gpus(worker.gpus);
  proto.set_trains_on_gpus(worker.trains_on_gpus);
  proto.mutable_labels()->insert(worker.labels.begin(), worker.labels.end());
  proto.mutable_labels()->erase(kTakesSecrets);
  for (const auto& [key, value] : worker.labels) {
    if (absl::StartsWith(key, kTrainerLevelPrefix)) proto.mutable_labels()->erase(key);
  }
  proto.set_interface(worker.interface);
  proto.set_process_tracking(worker.process_tracking);
  for (const auto& [slot, reason] : worker.unhealthy) {
    v1::UnhealthySlot* unhealthy = proto.add_unhealthy_slots();
    unhealthy->set_slot(slot);
    unhealthy->set_reason(reason);
  }
  proto.set_drained(worker.drain.has_value());
  proto.set_reason(worker.drain.has_value() ? worker.drain->reason : worker.lost_reason);
  if (const auto silent_for = view.liveness.silent_for(worker.id, view.now)) {
    *proto.mutable_silent_for() = ToProto(*silent_for);
  }
  return proto;
}

v1::Assignment ToProto(const core::Assignment& assignment, const std::string& store_host,
                       const KeyValueLimits& store_limits) {
  v1::Assignment proto;
  proto.set_version(assignment.version.value());
  for (const core::AssignedRank& rank : assignment.ranks) {
    v1::AssignedRank* added = proto.add_ranks();
    added->set_job(rank.key.job.value());
    added->set_generation(rank.key.generation.value());
    added->set_rank(rank.key.rank);
    added->set_world_size(rank.world_size);
    added->set_local_rank(rank.local_rank);
    added->set_slot(rank.slot);
    added->set_stop(rank.stop);
    added->set_store_port(rank.store_port);
    added->set_hand_over(rank.hand_over);
    added->set_on_gpu(rank.on_gpu);
    added->set_owner(rank.owner);
    *added->mutable_submitted_at() = ToProto(rank.submitted_at);
    *added->mutable_spec() = ParseSpec(rank.spec);
    if (added->spec().command().store() == "direct") added->set_store_host(store_host);
    if (rank.store_port != 0) Fill(store_limits, added->mutable_store_limits());
    for (const core::HostRanks& host : rank.hosts) Fill(host, added->add_hosts());
  }
  return proto;
}

core::ReportSlots FromProto(const v1::ReportSlotsRequest& request) {
  core::ReportSlots report{
      WorkerId(request.worker_id()), Incarnation(request.incarnation()), request.number(), {}};
  for (const v1::UnhealthySlot& slot : request.unhealthy()) {
    report.unhealthy[slot.slot()] = std::string(Utf8Prefix(slot.reason(), kLastLineBytesMax));
  }
  return report;
}

absl::StatusOr<core::ReportRank> FromProto(const v1::ReportRankRequest& request) {
  core::ReportRank report{
      .worker = WorkerId(request.worker_id()),
      .incarnation = Incarnation(request.incarnation()),
      .rank = {JobId(request.job()), Generation(request.generation()), request.rank()},
      .pid = request.pid(),
      .exit = FromProto(request.exit()),
      .error = std::string(Utf8Prefix(request.error(), kStartErrorBytesMax)),
      .stopped = request.stopped(),
      .stop_reason = std::string(Utf8Prefix(request.stop_reason(), kLastLineBytesMax)),
      .oom = request.oom()};
  if (request.has_job_submitted_at()) {
    report.job_submitted_at = FromProto(request.job_submitted_at());
  }
  DP_ASSIGN_OR_RETURN(report.what, ToWhat(request.state()));
  const int skipped = std::max(0, request.last_lines_size() - static_cast<int>(kLastLinesMax));
  for (int line = skipped; line < request.last_lines_size(); ++line) {
    report.last_lines.emplace_back(Utf8Prefix(request.last_lines(line), kLastLineBytesMax));
  }
  return report;
}

}  // namespace dp::server
