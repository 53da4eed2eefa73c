#include "server/convert/convert_queue.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/status.h"
#include "base/timeouts.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_job.h"

namespace dp::server {
namespace {

void Fill(const core::Worker& worker, const core::PlaceJob::Slot& slot,
          const std::string& rack_label, v1::PlannedRank* proto) {
  proto->set_worker(worker.name);
  proto->set_host(worker.host);
  proto->set_address(worker.address);
  proto->set_interface(worker.interface);
  proto->set_slot(slot.slot);
  proto->set_gpu(slot.slot < worker.gpus);
  const auto rack = worker.labels.find(rack_label);
  if (rack != worker.labels.end()) proto->set_rack(rack->second);
}

void FillRanks(const core::PlaceJob& place, const std::string& rack_label, const View& view,
               v1::PlanResponse* response) {
  std::map<WorkerId, int> ranks_on;
  for (const core::PlaceJob::Slot& slot : place.slots) {
    v1::PlannedRank* rank = response->add_ranks();
    rank->set_rank(response->ranks_size() - 1);
    rank->set_local_rank(ranks_on[slot.worker]++);
    Fill(*view.coordinator.worker(slot.worker), slot, rack_label, rank);
  }
}

void Fill(const char* name, absl::Duration after, const char* what, v1::PlanResponse* response) {
  v1::PlannedTimeout* timeout = response->add_timeouts();
  timeout->set_name(name);
  *timeout->mutable_after() = ToProto(after);
  timeout->set_what(what);
}

void FillTimeouts(const Timeouts& timeouts, v1::PlanResponse* response) {
  Fill("isolation", timeouts.isolation,
       "a daemon that does not reach the coordinator ends ranks with onIsolation: stop", response);
  Fill("lease", timeouts.lease, "a worker that is silent is lost", response);
  Fill("collective", timeouts.collective, "a collective that is blocked fails", response);
  Fill("hang", timeouts.hang, "a rank that was waited for is blamed", response);
  Fill("join", timeouts.join, "a train job's rank that runs and has not joined is blamed",
       response);
  Fill("store", timeouts.store, "a wait for a key in the store gives up", response);
  Fill("rendezvous", timeouts.rendezvous, "a wait for all ranks to join gives up", response);
}

}  // namespace

v1::Event ToProto(const core::Event& event) {
  v1::Event proto;
  proto.set_number(event.number);
  *proto.mutable_at() = ToProto(event.at);
  proto.set_job(event.job.value());
  proto.set_worker(event.worker);
  proto.set_kind(event.kind);
  proto.set_text(event.text);
  proto.set_actor(event.actor);
  return proto;
}

absl::Status FillPlan(const core::SubmitJob& submit, const core::PlacementPolicy& policy,
                      const View& view, v1::PlanResponse* response) {
  DP_ASSIGN_OR_RETURN(const core::Job job, view.coordinator.Draft(submit, view.now));
  *response->mutable_spec() = ParseSpec(job.spec.payload);
  FillTimeouts(TimeoutsFor(FromProto(response->spec().detect_within()), view.liveness.lease()),
               response);
  const core::Placement plan = core::PlanPlacement(view.coordinator, policy, view.now, &job);
  const auto placed = std::find_if(plan.place.begin(), plan.place.end(),
                                   [&](const core::PlaceJob& each) { return each.job == job.id; });
  if (placed != plan.place.end()) {
    FillRanks(*placed, policy.rack_label, view, response);
    return absl::OkStatus();
  }
  const core::Waiting& waiting = plan.waiting.at(job.id);
  response->set_queue_position(waiting.position);
  for (const core::PendingReason& reason : waiting.reasons) {
    *response->add_waits_for() = ToProto(reason);
  }
  return absl::OkStatus();
}

}  // namespace dp::server
