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

// What a ready worker has to give.
struct WorkerSlots {
  WorkerId id;
  std::string name = {};
  int count = 0;               // of all its slots
  std::vector<int> free = {};  // ascending
  int gpus = 0;                // the slots below this number have one
  bool trains_on_gpus = false;
  Labels labels = {};
  std::string rack = {};            // workers of one are near each other
  bool drained = false;             // then none is free
  std::vector<int> unhealthy = {};  // these are not free whoever leaves them
};

// What a job asks of workers.
struct SlotNeed {
  int ranks = 1;
  int nodes = 0;      // workers that take `ranks / nodes` each; 0: as few workers as will do
  int nodes_max = 0;  // as many of them where they are free; 0: `nodes`
  SlotKind kind = SlotKind::kAny;
  std::vector<LabelConstraint> constraints = {};

  size_t each() const { return nodes > 0 ? ranks / nodes : ranks; }
  auto operator<=>(const SlotNeed&) const = default;
};

// The workers as the jobs placed so far have left them. A plain value, so that a plan can go on
// with a copy. Not thread-safe.
class SlotSupply {
 public:
  using Slots = std::vector<PlaceJob::Slot>;

  explicit SlotSupply(std::vector<WorkerSlots> workers);

  // Slots for all ranks, in order of rank: on the fewest racks, there on the fewest workers, ranks
  // of one worker and workers of one rack adjacent, both in natural order of their names. None
  // where there are too few. With `spared` only slots that this other need has no use for.
  std::optional<Slots> Choose(const SlotNeed& need, const SlotNeed* spared = nullptr) const;

  // All of them are free.
  void Take(const Slots& slots);
  // Those of workers that are drained, or no longer there, are gone.
  void Give(const Slots& slots);

  // What there is for a job. "Large" are workers that would do if nobody else were there.
  struct Count {
    size_t free = 0;
    size_t all = 0;
    size_t free_workers = 0;   // with `nodes`: that have as many slots free as one of them needs
    size_t large_workers = 0;  // with `nodes`: that have so many at all
    size_t workers = 0;
  };
  Count CountFor(const SlotNeed& need, bool with_drained = false) const;
  static bool Fits(const SlotNeed& need, const Count& count);
  // Were nobody else there.
  static bool FitsIdle(const SlotNeed& need, const Count& count);

  // The workers that satisfy the constraints, with those of their free slots that the job can use.
  std::vector<WorkerSlots> OpenTo(const SlotNeed& need) const;
  // Whether a rank of the job could run there.
  bool CanUse(const SlotNeed& need, const PlaceJob::Slot& slot) const;
  // The workers, drained ones too, that satisfy the constraints.
  std::vector<const WorkerSlots*> Eligible(const SlotNeed& need) const;
  const WorkerSlots* Find(WorkerId id) const;

 private:
  std::vector<WorkerSlots> workers_;
  std::map<WorkerId, size_t> by_id_;
};

}  // namespace dp::core
