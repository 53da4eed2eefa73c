#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

namespace dp::core {

class Coordinator;
struct Departure;

// Asks the jobs on drained workers to leave, if the drain hands over and they were not asked
// before. Pure: the verdicts are commands.
std::vector<Action> FindHandovers(const Coordinator& coordinator);

// The commands that make running jobs leave. Native training is asked to save and leave, within its
// grace if another job waits for the slots. A program is stopped, and has its grace then.
std::vector<Action> AskToLeave(const Coordinator& coordinator,
                               const std::vector<Departure>& departures, absl::Time now);

}  // namespace dp::core
