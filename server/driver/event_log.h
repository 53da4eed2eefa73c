#pragma once

#include "server/core/command.h"
#include "server/core/coordinator.h"
#include "server/core/outcome.h"

namespace dp::server {

// Logs what a command has done to jobs and workers, one line per event, such as job_submitted,
// world_sealed or worker_lost. `coordinator` is in the state after the command. On the driver's
// thread, before the sync: after a crash the log may hold one command more than the journal.
void LogEvents(const core::Command& command, const core::Outcome& outcome,
               const core::Coordinator& coordinator);

}  // namespace dp::server
