#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/command.h"
#include "server/core/limits.h"
#include "server/core/pending_reason.h"
#include "server/core/reservation.h"
#include "server/core/slot_supply.h"
#include "server/core/store_ports.h"

// Which pending jobs start now, and where (docs/scheduling.md). Pure and outside Apply: its
// verdicts are PlaceJob commands, so a better policy never changes what a journal says.

namespace dp::core {

class Coordinator;
struct Job;

// What whoever runs the coordinator has decided.
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
  absl::Duration time_left = absl::InfiniteDuration();  // once it holds slots
  // What keeps it waiting however many slots are free.
  std::vector<PendingReason> not_its_turn = {};
  // Of its last generation, by rank; empty where it had none.
  std::vector<PlaceJob::Slot> previous = {};
  absl::Time not_before = absl::InfinitePast();
  int priority = 0;
  JobId preempted_by = {};  // who took the slots of its last generation
};

// An elastic job that runs with fewer workers than it may have.
struct GrowingJob {
  JobId id;
  SlotNeed need;
  bool store_port = false;
  std::string user = {};
  std::string queue = {};
  SlotSupply::Slots slots = {};
  absl::Time not_before = absl::InfinitePast();  // it may come back larger from then on

  int nodes() const { return static_cast<int>(slots.size() / need.each()); }
};

struct PlacementInput {
  std::vector<WorkerSlots> workers = {};
  std::vector<WaitingJob> queue = {};  // the next first
  std::vector<RunningJob> running = {};
  std::vector<GrowingJob> growing = {};  // whose turn is first in front
  PortSupply ports;
  Limits limits = {};
  absl::Time now;
};

// A job that goes on waiting.
struct Waiting {
  int position = 0;  // from 1, of those that are not held; 0: it is
  std::vector<PendingReason> reasons;
};

// A running job that is to leave its slots.
struct Departure {
  JobId job;
  HandoverCause cause = HandoverCause::kMove;
  std::string reason;
  JobId preempted_by = {};
};

struct Placement {
  std::vector<PlaceJob> place;   // in the order to apply them
  std::vector<Departure> leave;  // then
  std::map<JobId, Waiting> waiting;
  // When the plan may be another without any change: a job's back-off is over, a port that it
  // waits for has rested, or an elastic job may grow.
  absl::Time again_at = absl::InfiniteFuture();
};

// Places the jobs of the queue in order, each whole or not at all. The first one that fits these
// workers, only not now, has a reservation, and those behind it go ahead only where that does not
// delay it; and preemptible jobs of lower priority leave their slots to it (preemption.h). One that
// would not fit even on idle workers lets them pass, and so does one for which
// no port is left, or that is above a limit, or whose turn has not come for a reason of its own.
//
// Where nobody wants the slots that are left, one elastic job that can have more workers, and has
// run for long enough, is to leave and come back larger.
//
// A job that ran before stays where it was: the ranks of a worker that can take them all again keep
// it, and their slots where those are free; those of each other worker move together, to the
// tightest one that the job is not on. Where that cannot be, all are placed afresh; so is a job
// that can have more workers than it had.
Placement PlanPlacement(const PlacementInput& input);

// The same for the coordinator's ready workers and its pending jobs: by priority, then in the order
// in which they were queued. Slots that a job which may be restarted has freed already are kept for
// it until its last rank is gone. `also` is a job that is not on record, to see what would become
// of it.
Placement PlanPlacement(const Coordinator& coordinator, const PlacementPolicy& policy,
                        absl::Time now, const Job* also = nullptr);

}  // namespace dp::core
