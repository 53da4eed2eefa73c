#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace dp::worker {

// How a short program ended.
struct ProgramEnd {
  std::string output;            // the beginning of its output, both streams
  std::optional<int> exit_code;  // absent: it was killed, by timeout or from outside
  bool timed_out = false;
  int signal = 0;  // the signal that killed it before a timeout; else 0
};

// Runs a program, searched for in PATH, without input. Kills it after `patience`, and abandons it
// if a driver keeps it alive even then. Blocks. Errors: Unavailable the program cannot be run; the
// system's error if it has no pipe left.
absl::StatusOr<ProgramEnd> RunProgram(std::vector<std::string> argv, absl::Duration patience,
                                      const Clock& clock = Clock::Steady());

}  // namespace dp::worker
