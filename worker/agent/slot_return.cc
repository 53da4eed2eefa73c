#include "worker/agent/slot_return.h"

#include <utility>

#include "base/log.h"

namespace dp::worker {

SlotReturn::SlotReturn(Devices devices, Events& events, absl::Time now)
    : devices_(devices.memory != nullptr ? std::move(devices.by_slot)
                                         : std::vector<std::vector<Device>>(),
               devices.limits, now) {
  if (devices.memory != nullptr) probe_.emplace(*devices.memory, events);
}

void SlotReturn::Step(absl::Time now, Observed* observed) {
  devices_.Pass(now);
  if (!devices_.asking() && now >= devices_.ask_at()) {
    devices_.Asked(now);
    probe_->Ask(devices_.Waiting());
  }
  for (size_t i = 0; i < devices_.slots().size(); ++i) {
    const int slot = static_cast<int>(i);
    SlotFitness fitness = devices_.slots()[i];
    fitness.told = told_.contains(slot);
    observed->SlotIs(slot, std::move(fitness));
  }
}

SlotReturn::Reasons SlotReturn::Unhealthy() const {
  Reasons reasons;
  for (size_t i = 0; i < devices_.slots().size(); ++i) {
    const SlotFitness& slot = devices_.slots()[i];
    if (slot.state == SlotFitness::State::kUnfit) reasons[static_cast<int>(i)] = slot.reason;
  }
  return reasons;
}

v1::ReportSlotsRequest SlotReturn::TakeReport() {
  sent_ = Unhealthy();
  v1::ReportSlotsRequest request;
  request.set_number(++reports_);
  for (const auto& [slot, reason] : sent_) {
    v1::UnhealthySlot* unhealthy = request.add_unhealthy();
    unhealthy->set_slot(slot);
    unhealthy->set_reason(reason);
    Log(Severity::kWarning, "slot_unhealthy", {{"slot", slot}, {"reason", reason}});
  }
  return request;
}

void SlotReturn::ReportAnswered(bool done) {
  if (done) told_ = sent_;
}

}  // namespace dp::worker
