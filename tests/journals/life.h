#pragma once

#include <vector>

#include "server/core/command.h"

namespace dp::journals {

// The commands of a release's journal: every kind of command, all of them accepted. Add a new kind
// here before the next release. Two workers run jobs that succeed, fail, hang, are cancelled, or
// leave for other jobs, for a deadline and to grow. One job runs at the end with its store, and one
// waits. Jobs hold a specification, as the coordinator stores it. Jobs of journals older than
// 0.1.0.format4.specs hold none.
std::vector<core::Command> ALife();

}  // namespace dp::journals
