#pragma once

#include "absl/time/time.h"
#include "server/core/command.h"
#include "server/core/job.h"

namespace dp::core {

// A rank's collective has failed because of its peers. The job fails with the one of them that is
// left when those that speak up themselves are not counted; with several only where it `insists`.
// Returns whether anything changed. Pure but for `job`.
bool PeersAccused(Job& job, const AccusePeers& accusation, absl::Time at);

}  // namespace dp::core
