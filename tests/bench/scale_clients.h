#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::bench {

using Figures = std::vector<std::pair<std::string, double>>;

// Prints `at NAME` and waits for a line of input, which it returns: somebody looks at the
// coordinator meanwhile.
std::string Stage(const std::string& name);

// Jobs that find no slot: how long it takes to submit `jobs`, and to list them.
Figures QueueFigures(const std::string& address, int jobs);

// Followers of one log, which grows while they read: how long after the last line was stored until
// the last follower has all, and how many calls were refused on the way.
Figures FollowFigures(const std::string& address, int followers, int lines);

// Connections to the store of one job: how long it takes to open them, and then to put a key on
// each. Errors: those of StoreLoad; NotFound the coordinator has no --tcpstore-listen.
absl::StatusOr<Figures> StoreFigures(const std::string& address, int connections);

}  // namespace dp::bench
