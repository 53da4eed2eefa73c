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

// A GPU as ranks are given it, and as messages name it: "GPU 0 (GPU-2f5a)".
struct Device {
  std::string name;
  std::string label;

  bool operator==(const Device&) const = default;
};

// What the driver says of each device by name: bytes of its memory in use, or why it does not say.
using DeviceMemory = std::map<std::string, absl::StatusOr<int64_t>>;

// When the GPUs of a slot may be used again: once nothing is left of the rank that had it, and the
// driver has said since that their memory is free, which is later than the end of the processes. A
// slot whose GPUs do not become free for `patience` is unfit, until they do. At the start nothing
// is known of any. Pure; owned by the agent's thread.
class SlotDevices {
 public:
  struct Limits {
    int64_t free_bytes_max = int64_t{512} << 20;  // in use by a driver without work, or a display
    absl::Duration patience = absl::Seconds(30);
    // Between questions about slots that return, and about those that are unfit.
    absl::Duration ask_every = absl::Milliseconds(500);
    absl::Duration ask_unfit_every = absl::Seconds(10);
  };

  // `by_slot`: the devices of each; a slot without any is fit for ever.
  SlotDevices(std::vector<std::vector<Device>> by_slot, Limits limits, absl::Time now);

  // What happens to a slot: a rank is started there; nothing is left of it.
  void Taken(int slot);
  void TreeGone(int slot, absl::Time now);
  // The driver has been asked about the memory of Waiting(), and has answered.
  void Asked(absl::Time now);
  void Answered(const DeviceMemory& memory, absl::Time now);
  // Time passes; without an answer too a slot is unfit in the end.
  void Pass(absl::Time now);

  // The devices to ask about, each once.
  std::vector<std::string> Waiting() const;
  // When to ask next; while the driver is being asked, when patience ends.
  absl::Time ask_at() const;
  bool asking() const { return asking_; }
  // By slot; those in use by a rank are fit.
  const std::vector<SlotFitness>& slots() const { return fitness_; }

 private:
  using State = SlotFitness::State;
  struct Slot {
    std::vector<Device> devices;
    absl::Time returning_since;
    bool used = false;    // by a rank of this daemon
    std::string trouble;  // why it was not free when last seen
  };

  bool WaitsFor(size_t slot) const { return fitness_[slot].state != State::kFit; }
  // Empty: all its devices are free.
  std::string TroubleOf(const Slot& slot, const DeviceMemory& memory) const;
  std::string ReasonFor(const Slot& slot) const;

  const Limits limits_;
  std::vector<Slot> slots_;
  std::vector<SlotFitness> fitness_;
  bool asking_ = false;
  absl::Time asked_at_ = absl::InfinitePast();
};

}  // namespace dp::worker
