#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/gpus/device_memory.h"
#include "worker/agent/mailbox.h"
#include "worker/core/gpu_health.h"
#include "worker/core/observed.h"
#include "worker/core/slot_devices.h"

namespace dp::worker {

// Returns used slots to the pool. Asks the driver whether their GPUs are free. Tracks what to
// report to the coordinator: the slots whose GPUs are not released or not healthy. Owned by the
// agent and used by its thread.
class SlotReturn {
 public:
  struct Devices {
    std::vector<std::vector<Device>> by_slot;
    DeviceMemorySource* memory = nullptr;  // null: GPUs are always free
    SlotDevices::Limits limits;
    GpuHealthLimits health;
  };

  // The caller owns `devices.memory` and `mailbox`.
  SlotReturn(Devices devices, Mailbox& mailbox, absl::Time now);

  // The facts of SlotDevices.
  void Taken(int slot) { devices_.Taken(slot); }
  void TreeGone(int slot, absl::Time now) { devices_.TreeGone(slot, now); }
  void Answered(const DeviceMemory& memory, absl::Time now) { devices_.Answered(memory, now); }
  void Read(const std::vector<GpuReading>& gpus);
  // Why no rank's output can be written on this host: no slot is fit then. Empty: it can be.
  void SpoolIs(std::string trouble) { spool_trouble_ = std::move(trouble); }
  // The coordinator assumes that all slots of a new incarnation are fit.
  void BeginIncarnation() {
    sent_.clear();  // a late answer must not count for the new incarnation
    told_.clear();
  }

  // Sends the queries that are due, and gives `observed` the state of each slot.
  void Step(absl::Time now, Observed* observed);
  // When Step has work even if nothing happens before.
  absl::Time wake_at() const { return devices_.ask_at(); }

  // Whether the coordinator's knowledge is out of date.
  bool report_due() const { return Unhealthy() != told_; }
  // The report to send, without worker and incarnation. ReportAnswered must follow before the next
  // one.
  v1::ReportSlotsRequest TakeReport();
  void ReportAnswered(bool done);

 private:
  using Reasons = std::map<int, std::string>;  // by slot
  Reasons Unhealthy() const;
  // By the spool, then by the GPUs' health, then by their memory.
  SlotFitness FitnessOf(int slot) const;

  const std::vector<std::vector<Device>> by_slot_;
  const GpuHealthLimits health_limits_;
  SlotDevices devices_;
  Reasons sick_;  // slots with an unhealthy GPU
  std::string spool_trouble_;
  std::optional<DeviceProbe> probe_;
  uint64_t reports_ = 0;
  Reasons sent_;
  Reasons told_;
};

}  // namespace dp::worker
