#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/core/observed.h"

namespace dp::worker {

// A GPU: its name for ranks, and its label in messages, "GPU 0 (GPU-2f5a)".
struct Device {
  std::string name;
  std::string label;

  bool operator==(const Device&) const = default;
};

// The driver's answers by device name: bytes of its memory in use, or why they are unknown.
using DeviceMemory = std::map<std::string, absl::StatusOr<int64_t>>;

// Decides when the GPUs of a slot may be used again. Nothing may be left of the slot's last rank,
// and the driver must have reported the GPUs' memory as free since. Memory becomes free later than
// the processes end. A slot whose GPUs do not become free within `patience` is unfit until they do.
// At the start the state of all slots is unknown. Pure; owned by the agent's thread.
class SlotDevices {
 public:
  struct Limits {
    int64_t free_bytes_max = int64_t{512} << 20;  // for a driver without work, or a display
    absl::Duration patience = absl::Seconds(30);
    // The intervals between queries: for slots that return, and for unfit slots.
    absl::Duration ask_every = absl::Milliseconds(500);
    absl::Duration ask_unfit_every = absl::Seconds(10);
  };

  // `by_slot`: the devices of each slot; a slot without devices is always fit.
  SlotDevices(std::vector<std::vector<Device>> by_slot, Limits limits, absl::Time now);

  // A rank is started in the slot.
  void Taken(int slot);
  // No process of the slot's rank is left.
  void TreeGone(int slot, absl::Time now);
  // The driver was asked about the memory of Waiting(), and answered.
  void Asked(absl::Time now);
  void Answered(const DeviceMemory& memory, absl::Time now);
  // Time passes: a slot becomes unfit even without an answer.
  void Pass(absl::Time now);

  // The devices to ask about, each one once.
  std::vector<std::string> Waiting() const;
  // When to ask next. While a query is in flight: when patience ends.
  absl::Time ask_at() const;
  bool asking() const { return asking_; }
  // By slot. A slot in use by a rank is fit.
  const std::vector<SlotFitness>& slots() const { return fitness_; }

 private:
  using State = SlotFitness::State;
  struct Slot {
    std::vector<Device> devices;
    absl::Time returning_since;
    bool used = false;    // by a rank of this daemon
    std::string trouble;  // why it was not free at the last answer
  };

  bool WaitsFor(size_t slot) const { return fitness_[slot].state != State::kFit; }
  // Why the slot's devices are not free; empty if all are.
  std::string TroubleOf(const Slot& slot, const DeviceMemory& memory) const;
  std::string ReasonFor(const Slot& slot) const;

  const Limits limits_;
  std::vector<Slot> slots_;
  std::vector<SlotFitness> fitness_;
  bool asking_ = false;
  absl::Time asked_at_ = absl::InfinitePast();
};

}  // namespace dp::worker
