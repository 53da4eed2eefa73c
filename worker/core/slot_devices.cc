#include "worker/core/slot_devices.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::worker {

SlotDevices::SlotDevices(std::vector<std::vector<Device>> by_slot, Limits limits, absl::Time now)
    : limits_(limits), fitness_(by_slot.size()) {
  for (std::vector<Device>& devices : by_slot) slots_.push_back({.devices = std::move(devices)});
  for (size_t slot = 0; slot < slots_.size(); ++slot) TreeGone(static_cast<int>(slot), now);
  for (Slot& slot : slots_) slot.used = false;
}

void SlotDevices::Taken(int slot) {
  if (static_cast<size_t>(slot) >= slots_.size()) return;
  fitness_[slot] = {};
}

void SlotDevices::TreeGone(int slot, absl::Time now) {
  if (static_cast<size_t>(slot) >= slots_.size() || slots_[slot].devices.empty()) return;
  fitness_[slot] = {.state = State::kReturning};
  slots_[slot].returning_since = now;
  slots_[slot].used = true;
  slots_[slot].trouble.clear();
}

void SlotDevices::Asked(absl::Time now) {
  asking_ = true;
  asked_at_ = now;
}

void SlotDevices::Answered(const DeviceMemory& memory, absl::Time now) {
  asking_ = false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    // An answer to a query from before the end of the rank says nothing.
    if (!WaitsFor(i) || asked_at_ < slots_[i].returning_since) continue;
    slots_[i].trouble = TroubleOf(slots_[i], memory);
    if (slots_[i].trouble.empty()) fitness_[i] = {};
  }
  Pass(now);
}

void SlotDevices::Pass(absl::Time now) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool returning = fitness_[i].state == State::kReturning;
    if (!returning || now < slots_[i].returning_since + limits_.patience) continue;
    fitness_[i] = {.state = State::kUnfit, .reason = ReasonFor(slots_[i])};
  }
}

std::string SlotDevices::TroubleOf(const Slot& slot, const DeviceMemory& memory) const {
  for (const Device& device : slot.devices) {
    const auto answer = memory.find(device.name);
    if (answer == memory.end()) return absl::StrCat(device.label, " was not asked about");
    const absl::StatusOr<int64_t>& bytes = answer->second;
    if (!bytes.ok()) {
      return absl::StrCat(device.label, " does not say how much memory is in use: ",
                          std::string(bytes.status().message()));
    }
    if (*bytes <= limits_.free_bytes_max) continue;
    return absl::StrCat(device.label, slot.used ? " still holds " : " holds ", *bytes >> 20, " MiB",
                        slot.used ? " after its processes ended" : " that no rank uses");
  }
  return "";
}

std::string SlotDevices::ReasonFor(const Slot& slot) const {
  if (!slot.trouble.empty()) return slot.trouble;
  return absl::StrCat(slot.devices.front().label, ": its driver has not answered for ",
                      absl::FormatDuration(limits_.patience));
}

std::vector<std::string> SlotDevices::Waiting() const {
  std::set<std::string> names;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!WaitsFor(i)) continue;
    for (const Device& device : slots_[i].devices) names.insert(device.name);
  }
  return {names.begin(), names.end()};
}

absl::Time SlotDevices::ask_at() const {
  absl::Time at = absl::InfiniteFuture();
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool returning = fitness_[i].state == State::kReturning;
    if (asking_ && returning) at = std::min(at, slots_[i].returning_since + limits_.patience);
    if (asking_ || !WaitsFor(i)) continue;
    at = std::min(at, asked_at_ + (returning ? limits_.ask_every : limits_.ask_unfit_every));
  }
  return at;
}

}  // namespace dp::worker
