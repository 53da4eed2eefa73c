#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::bench {

using Figures = std::vector<std::pair<std::string, double>>;

// Prints `at NAME`, waits for a line of input, and returns the line. Meanwhile the reader inspects
// the coordinator.
std::string Stage(const std::string& name);

// Submits jobs that find no slot. Measures how long submitting `jobs` and listing them takes.
Figures QueueFigures(const std::string& address, int jobs);

// Many followers read one log while it grows. Measures the time from storing the last line until
// the last follower has everything, and counts rejected calls.
Figures FollowFigures(const std::string& address, int followers, int lines);

// Opens `connections` connections to the store of one job, then puts a key on each. Measures both
// times. Errors: those of StoreLoad; NotFound the coordinator has no --tcpstore-listen.
absl::StatusOr<Figures> StoreFigures(const std::string& address, int connections);

}  // namespace dp::bench
