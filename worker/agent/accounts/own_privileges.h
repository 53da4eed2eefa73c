#pragma once

#include <string>

#include "absl/status/status.h"

// The rights and secrets that a daemon gives up at its start, so that ranks can neither read nor
// inherit them. Call these before the process starts threads: capabilities belong to a thread.

namespace dp::worker {

// Removes the variable from the environment, and its value from the memory that /proc shows.
void ForgetVariable(const char* name);

// Keeps the capabilities of a daemon that runs ranks as other users, with mounts of their own or
// without; docs/worker.md lists them. Drops all others for good, also for the programs that this
// process starts. Errors: FailedPrecondition names the capabilities that this process lacks.
absl::Status KeepNeededCapabilities(bool mounts);

// Programs that this process starts inherit no capability by the ambient set.
void DropAmbientCapabilities();

}  // namespace dp::worker
