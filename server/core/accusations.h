#pragma once

#include "absl/time/time.h"
#include "server/core/command.h"
#include "server/core/job.h"

namespace dp::core {

// Records that a rank's collective failed because of its peers. The job fails once a single suspect
// is left: a rank that peers waited for and that has not reported itself. With several suspects it
// fails only if the accusation has `insist`. Returns whether anything changed. Pure but for `job`.
bool PeersAccused(Job& job, const AccusePeers& accusation, absl::Time at);

}  // namespace dp::core
