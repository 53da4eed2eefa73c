#pragma once

#include <vector>

#include "server/core/command.h"

namespace dp::core {

class Coordinator;

// The jobs that are to leave a worker which somebody wants empty, and have not been asked yet.
// Pure: the verdicts are commands.
std::vector<Action> FindHandovers(const Coordinator& coordinator);

}  // namespace dp::core
