#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/device_memory.h"
#include "worker/agent/events.h"
#include "worker/core/gpu_health.h"
#include "worker/core/observed.h"
#include "worker/core/slot_devices.h"

namespace dp::worker {

// Brings slots back to the pool: has the driver asked about the GPUs of those that were used, and
// keeps what the coordinator is to be told of slots that cannot be, as their GPUs are not let go or
// not in order. Owned by the agent and used by its thread.
class SlotReturn {
 public:
  struct Devices {
    std::vector<std::vector<Device>> by_slot;
    DeviceMemorySource* memory = nullptr;  // null: all are always free
    SlotDevices::Limits limits;
    GpuHealthLimits health;
  };

  // `devices.memory` and `events` are the owner's.
  SlotReturn(Devices devices, Events& events, absl::Time now);

  // What happened: as SlotDevices.
  void Taken(int slot) { devices_.Taken(slot); }
  void TreeGone(int slot, absl::Time now) { devices_.TreeGone(slot, now); }
  void Answered(const DeviceMemory& memory, absl::Time now) { devices_.Answered(memory, now); }
  void Read(const std::vector<GpuReading>& gpus);
  // The coordinator takes all slots for fit.
  void BeginIncarnation() {
    sent_.clear();  // an answer to it is none to the new one
    told_.clear();
  }

  // Asks what is due to be asked, and tells `observed` what is known of each slot.
  void Step(absl::Time now, Observed* observed);
  // When Step has something to do without news.
  absl::Time wake_at() const { return devices_.ask_at(); }

  // Whether the coordinator is to be told.
  bool report_due() const { return Unhealthy() != told_; }
  // The report to send, without worker and incarnation; ReportAnswered must follow before the next.
  v1::ReportSlotsRequest TakeReport();
  void ReportAnswered(bool done);

 private:
  using Reasons = std::map<int, std::string>;  // by slot
  Reasons Unhealthy() const;
  // As far as its memory and its health go.
  SlotFitness FitnessOf(int slot) const;

  const std::vector<std::vector<Device>> by_slot_;
  const GpuHealthLimits health_limits_;
  SlotDevices devices_;
  Reasons sick_;  // slots with a GPU that is not in order
  std::optional<DeviceProbe> probe_;
  uint64_t reports_ = 0;
  Reasons sent_;
  Reasons told_;
};

}  // namespace dp::worker
