#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/core/command.h"
#include "store/operation.h"
#include "tests/scenarios/line.h"

// The values of the words and options of a script's line. A mistake throws std::invalid_argument
// with the word.

namespace dp::scenarios {

int ToNumber(absl::string_view text);
absl::Duration ToDuration(const std::string& text);

// "code=1" or "signal=9"; code 0 by default.
core::Exit ExitOf(const Line& line);
// "ports=4001" with slots=2: ports 4001 and 4002.
std::vector<int> PortsOf(const Line& line);
// "submit" with all options of a job.
core::JobSpec SpecOf(const Line& line);
// "store JOB verb key ..." as a batch of one operation.
StoreOperation Operation(const Line& line);

}  // namespace dp::scenarios
