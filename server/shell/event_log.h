#pragma once

#include "server/core/command.h"
#include "server/core/coordinator.h"
#include "server/core/outcome.h"

namespace dp::server {

// Logs what a command has done to jobs and workers, one line an event: job_submitted, job_placed,
// world_sealed, peers_accused, rank_given_up, job_ended, worker_registered, worker_leaving,
// worker_lost. `coordinator` is as the command has left it. On the driver's thread, before the
// sync: after a crash the log may know of one command more than the journal.
void LogEvents(const core::Command& command, const core::Outcome& outcome,
               const core::Coordinator& coordinator);

}  // namespace dp::server
