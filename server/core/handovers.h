#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/command.h"

namespace dp::core {

class Coordinator;
struct Departure;

// The jobs that are to leave a worker which somebody wants empty, and have not been asked yet.
// Pure: the verdicts are commands.
std::vector<Action> FindHandovers(const Coordinator& coordinator);

// What makes running jobs leave: native training is asked to save and leave, within its grace where
// another job waits for that; a program is stopped, and has its grace then.
std::vector<Action> AskToLeave(const Coordinator& coordinator,
                               const std::vector<Departure>& departures, absl::Time now);

}  // namespace dp::core
