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
};

struct Placement {
  std::vector<PlaceJob> place;                        // in the order to apply them
  std::map<JobId, std::vector<std::string>> reasons;  // of each job that must wait
  // When a port that a job waits for has rested, with which the plan may be another.
  absl::Time again_at = absl::InfiniteFuture();
};

// Places the jobs of `queue` in order, each whole or not at all, on as few workers as possible, the
// ranks of one worker adjacent, workers in natural order of their names (node2 before node10). A
// job that says on how many workers it runs gets so many, with the same number of ranks on each. A
// job that fits these workers, only not now, keeps those behind it waiting, so that it gets its
// turn; one that would not fit even on idle workers lets them pass, and so does one for which no
// port is left.
Placement PlanPlacement(const std::vector<WorkerSlots>& workers,
                        const std::vector<WaitingJob>& queue, PortSupply ports);

// The same for the coordinator's ready workers that are not leaving, and its pending jobs, oldest
// first.
Placement PlanPlacement(const Coordinator& coordinator, const StorePortRange& ports,
                        absl::Time now);
// With the default range of ports, all of them rested.
Placement PlanPlacement(const Coordinator& coordinator);

}  // namespace dp::core
