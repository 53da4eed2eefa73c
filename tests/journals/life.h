#pragma once

#include <vector>

#include "server/core/command.h"

namespace dp::journals {

// What the journal of a release is made of: every kind of command that there is, and all of them
// accepted; a new kind belongs here before the next release. Two workers, jobs that succeed, fail,
// hang and are cancelled, that leave for others, for a deadline and to grow, one that runs at the
// end with its store, and one that waits. Jobs hold a specification, as a coordinator puts it
// there; those of the journals that were written before 0.1.0.format4.specs hold none.
std::vector<core::Command> ALife();

}  // namespace dp::journals
