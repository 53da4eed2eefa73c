#include "worker/agent/slot_return.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"

namespace dp::worker {

SlotReturn::SlotReturn(Devices devices, Mailbox& mailbox, absl::Time now)
    : by_slot_(std::move(devices.by_slot)),
      health_limits_(devices.health),
      devices_(devices.memory != nullptr ? by_slot_ : std::vector<std::vector<Device>>(),
               devices.limits, now) {
  if (devices.memory == nullptr) return;
  probe_.emplace(*devices.memory, [&mailbox](DeviceMemory memory) {
    mailbox.Tell(DeviceMemoryRead{std::move(memory)});
  });
}

void SlotReturn::Read(const std::vector<GpuReading>& gpus) {
  std::map<std::string, std::string> reasons;  // by device
  for (const GpuReading& gpu : gpus) reasons[gpu.name] = WhyUnfit(gpu, health_limits_);
  sick_.clear();
  for (size_t slot = 0; slot < by_slot_.size(); ++slot) {
    for (const Device& device : by_slot_[slot]) {
      const std::string& reason = reasons[device.name];
      if (reason.empty()) continue;
      sick_.emplace(static_cast<int>(slot), absl::StrCat(device.label, " ", reason));
    }
  }
}

SlotFitness SlotReturn::FitnessOf(int slot) const {
  if (!spool_trouble_.empty()) {
    return {.state = SlotFitness::State::kUnfit, .reason = spool_trouble_};
  }
  const auto sick = sick_.find(slot);
  if (sick != sick_.end()) return {.state = SlotFitness::State::kUnfit, .reason = sick->second};
  return static_cast<size_t>(slot) < devices_.slots().size() ? devices_.slots()[slot]
                                                             : SlotFitness();
}

void SlotReturn::Step(absl::Time now, Observed* observed) {
  devices_.Pass(now);
  if (!devices_.asking() && now >= devices_.ask_at()) {
    devices_.Asked(now);
    probe_->Ask(devices_.Waiting());
  }
  for (int slot = 0; slot < static_cast<int>(by_slot_.size()); ++slot) {
    SlotFitness fitness = FitnessOf(slot);
    fitness.told = told_.contains(slot);
    observed->SlotIs(slot, std::move(fitness));
  }
}

SlotReturn::Reasons SlotReturn::Unhealthy() const {
  Reasons reasons;
  for (int slot = 0; slot < static_cast<int>(by_slot_.size()); ++slot) {
    const SlotFitness fitness = FitnessOf(slot);
    if (fitness.state == SlotFitness::State::kUnfit) reasons[slot] = fitness.reason;
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
