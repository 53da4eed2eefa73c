#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/store/operation.h"
#include "server/core/command.h"
#include "tests/scenarios/line.h"

// What the words and options of a script's line stand for. A mistake throws std::invalid_argument
// with the word.

namespace dp::scenarios {

int ToNumber(absl::string_view text);
absl::Duration ToDuration(const std::string& text);

// "code=1" or "signal=9"; code 0.
core::Exit ExitOf(const Line& line);
// "ports=4001" of slots=2 are 4001 and 4002.
std::vector<int> PortsOf(const Line& line);
// "submit" with all that a job asks for.
core::JobSpec SpecOf(const Line& line);
// "store JOB verb key ..." makes a batch of one operation.
StoreOperation Operation(const Line& line);

}  // namespace dp::scenarios
