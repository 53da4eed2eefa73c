#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/command.h"
#include "server/core/store_ports.h"
#include "server/policy/limits.h"
#include "server/policy/pending_reason.h"
#include "server/policy/reservation.h"
#include "server/policy/slot_supply.h"

// Which pending jobs start now, and where (docs/scheduling.md). Pure and outside Apply: the
// verdicts are PlaceJob commands, so a better policy never changes what a journal means.

namespace dp::core {

class Coordinator;
struct Job;

// The operator's settings.
struct PlacementPolicy {
  StorePortRange ports = {};
  Limits limits = {};
  std::string rack_label = "rack";  // workers with the same value are near each other
};

struct WaitingJob {
  JobId id;
  SlotNeed need;
  bool store_port = false;
  std::string user = {};
  std::string queue = {};
  absl::Duration time_left = absl::InfiniteDuration();  // how long it may hold slots
  // The reasons that keep it waiting even if enough slots are free.
  std::vector<PendingReason> not_its_turn = {};
  // The slots of its last generation, by rank; empty if there was none.
  std::vector<PlaceJob::Slot> previous = {};
  absl::Time not_before = absl::InfinitePast();
  int priority = 0;
  JobId preempted_by = {};  // the job that took the slots of its last generation
};

// An elastic job that runs with fewer workers than it may have.
struct GrowingJob {
  JobId id;
  SlotNeed need;
  bool store_port = false;
  std::string user = {};
  std::string queue = {};
  SlotSupply::Slots slots = {};
  absl::Time not_before = absl::InfinitePast();  // from then on it may come back larger

  int nodes() const { return static_cast<int>(slots.size() / need.each()); }
};

struct PlacementInput {
  std::vector<WorkerSlots> workers = {};
  std::vector<WaitingJob> queue = {};  // in the order of their turn
  std::vector<RunningJob> running = {};
  std::vector<GrowingJob> growing = {};  // in the order of their turn
  PortSupply ports;
  Limits limits = {};
  absl::Time now;
};

// A job that goes on waiting.
struct Waiting {
  int position = 0;  // from 1, among those not held; 0: held
  std::vector<PendingReason> reasons;
};

// A running job that has to leave its slots.
struct Departure {
  JobId job;
  HandoverCause cause = HandoverCause::kMove;
  std::string reason;
  JobId preempted_by = {};
};

struct Placement {
  std::vector<PlaceJob> place;   // in the order to apply them
  std::vector<Departure> leave;  // after `place`
  std::map<JobId, Waiting> waiting;
  // When the plan may differ although nothing has changed: a back-off ends, a store port has
  // rested, or an elastic job may grow.
  absl::Time again_at = absl::InfiniteFuture();
};

// Places the jobs of the queue in order, each whole or not at all. The first job that fits these
// workers, but not now, gets a reservation. Jobs behind it go ahead only if that does not delay it.
// Preemptible jobs of lower priority leave their slots to it (preemption.h). Others pass a job that
// would not fit even on idle workers. They also pass a job without a port, above a limit, or whose
// own turn has not come.
//
// If nobody wants the slots that are left, one elastic job leaves and comes back larger. The job
// must have run for long enough, and must get more workers.
//
// A restarted job stays where it was. The ranks of a worker that can take all of them again stay
// there, in their old slots if these are free. The ranks of each other worker move together, to the
// tightest worker without ranks of the job. If that fails, or if the job can have more workers than
// before, all ranks are placed afresh.
Placement PlanPlacement(const PlacementInput& input);

// The same for the coordinator's ready workers and pending jobs: by priority, then in the order in
// which they were queued. Slots that a job with restarts has freed are kept for it until its last
// rank is gone. `also` is a job that is not on record, to see how it would be placed.
Placement PlanPlacement(const Coordinator& coordinator, const PlacementPolicy& policy,
                        absl::Time now, const Job* also = nullptr);

}  // namespace dp::core
