#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace dp::worker {

// How a short program has ended.
struct ProgramEnd {
  std::string output;            // the first of what it wrote, on both of its streams
  std::optional<int> exit_code;  // absent: it was killed, for want of time or by another
  bool timed_out = false;
  int signal = 0;  // that has killed it, where time was not over; else 0
};

// Runs a program, searched for in PATH, without input and for `patience` at most; then it is
// killed; one that
// its driver keeps even then is left behind. Blocks. Errors: Unavailable it cannot be run; the
// system's own.
absl::StatusOr<ProgramEnd> RunProgram(std::vector<std::string> argv, absl::Duration patience,
                                      const Clock& clock = Clock::Steady());

}  // namespace dp::worker
