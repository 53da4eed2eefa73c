#pragma once

#include <string>

#include "server/core/command.h"
#include "server/core/coordinator.h"
#include "server/core/outcome.h"

namespace dp::server {

// Logs what a command has done to jobs and workers, one line per event, such as job_submitted,
// world_sealed or worker_lost. `coordinator` is in the state after the command; `removed` is the
// name of the job that the command removes, as NameToRemove gave it before. On the driver's thread,
// before the sync: after a crash the log may hold one command more than the journal.
void LogEvents(const core::Command& command, const core::Outcome& outcome,
               const core::Coordinator& coordinator, const std::string& removed);

// The name of the job that the command would remove from the record; empty if there is none.
std::string NameToRemove(const core::Command& command, const core::Coordinator& coordinator);

}  // namespace dp::server
