#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/labels.h"
#include "server/core/command.h"

namespace dp::core {

// The slots that a ready worker has to give.
struct WorkerSlots {
  WorkerId id;
  std::string name = {};
  int count = 0;               // the number of all its slots
  std::vector<int> free = {};  // ascending
  int gpus = 0;                // the slots below this number have a GPU
  bool trains_on_gpus = false;
  Labels labels = {};
  std::string rack = {};            // workers of the same rack are near each other
  bool drained = false;             // then no slot is free
  std::vector<int> unhealthy = {};  // not free, even when their jobs leave
};

// The slots that a job needs.
struct SlotNeed {
  int ranks = 1;
  int nodes = 0;      // workers that take `ranks / nodes` each; 0: as few workers as will do
  int nodes_max = 0;  // up to so many workers, if free; 0: `nodes`
  SlotKind kind = SlotKind::kAny;
  std::vector<LabelConstraint> constraints = {};

  size_t each() const { return nodes > 0 ? ranks / nodes : ranks; }
  auto operator<=>(const SlotNeed&) const = default;
};

// The workers as the jobs placed so far have left them. A plain value: a plan may continue with a
// copy. Not thread-safe.
class SlotSupply {
 public:
  using Slots = std::vector<PlaceJob::Slot>;

  explicit SlotSupply(std::vector<WorkerSlots> workers);

  // Chooses slots for all ranks, in order of rank: on the fewest racks, and there on the fewest
  // workers. Ranks of one worker and workers of one rack are adjacent, both in natural order of
  // their names. None if there are too few slots. With `spared`, only slots that this other need
  // cannot use.
  std::optional<Slots> Choose(const SlotNeed& need, const SlotNeed* spared = nullptr) const;

  // Precondition: all are free.
  void Take(const Slots& slots);
  // Frees the slots, except unhealthy ones and those of workers that are drained or gone.
  void Give(const Slots& slots);

  // The slots that exist for a job. "Large" workers would do if nobody else were there.
  struct Count {
    size_t free = 0;
    size_t all = 0;
    size_t free_workers = 0;   // with `nodes`: that have enough free slots for one node
    size_t large_workers = 0;  // with `nodes`: that have enough slots for one node
    size_t workers = 0;
  };
  Count CountFor(const SlotNeed& need, bool with_drained = false) const;
  static bool Fits(const SlotNeed& need, const Count& count);
  // If nobody else were there.
  static bool FitsIdle(const SlotNeed& need, const Count& count);

  // The workers that satisfy the constraints, each with the free slots that the job can use.
  std::vector<WorkerSlots> OpenTo(const SlotNeed& need) const;
  // Whether a rank of the job could run in the slot.
  bool CanUse(const SlotNeed& need, const PlaceJob::Slot& slot) const;
  // The workers that satisfy the constraints and have slots of the kind, drained ones included.
  std::vector<const WorkerSlots*> Eligible(const SlotNeed& need) const;
  const WorkerSlots* Find(WorkerId id) const;

 private:
  std::vector<WorkerSlots> workers_;
  std::map<WorkerId, size_t> by_id_;
};

}  // namespace dp::core
