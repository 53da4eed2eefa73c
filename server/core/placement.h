#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/command.h"
#include "server/core/store_ports.h"

// Which pending jobs start now, and where. Pure and outside Apply: its verdicts are PlaceJob
// commands, so a better policy never changes what a journal says.

namespace dp::core {

class Coordinator;

// What a ready worker has to give.
struct WorkerSlots {
  WorkerId id;
  std::string name;
  int count = 0;          // of all its slots
  std::vector<int> free;  // ascending
};

struct WaitingJob {
  JobId id;
  int ranks = 0;
  bool store_port = false;
  int nodes = 0;  // workers that take `ranks / nodes` each; 0: as few workers as will do
  // Of its last generation, by rank; empty where it had none.
  std::vector<PlaceJob::Slot> previous = {};
  absl::Time not_before = absl::InfinitePast();
};

struct Placement {
  std::vector<PlaceJob> place;                        // in the order to apply them
  std::map<JobId, std::vector<std::string>> reasons;  // of each job that must wait
  // When the plan may be another without any change: a job's back-off is over, or a port that it
  // waits for has rested.
  absl::Time again_at = absl::InfiniteFuture();
};

// Places the jobs of `queue` in order, each whole or not at all, on as few workers as possible, the
// ranks of one worker adjacent, workers in natural order of their names (node2 before node10). A
// job that says on how many workers it runs gets so many, with the same number of ranks on each. A
// job that fits these workers, only not now, keeps those behind it waiting, so that it gets its
// turn; one that would not fit even on idle workers lets them pass, and so does one for which no
// port is left.
//
// A job that ran before stays where it was: the ranks of a worker that can take them all again keep
// it, and their slots where those are free; those of each other worker move together, to the
// tightest one that the job is not on. Where that cannot be, all are placed afresh.
Placement PlanPlacement(const std::vector<WorkerSlots>& workers,
                        const std::vector<WaitingJob>& queue, PortSupply ports, absl::Time now);

// The same for the coordinator's ready workers that are not leaving, and its pending jobs, oldest
// first. Slots that a job which may be restarted has freed already are kept for it until its last
// rank is gone.
Placement PlanPlacement(const Coordinator& coordinator, const StorePortRange& ports,
                        absl::Time now);
// With the default range of ports, all of them rested.
Placement PlanPlacement(const Coordinator& coordinator);

}  // namespace dp::core
