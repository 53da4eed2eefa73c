#pragma once

#include "absl/status/status.h"
#include "worker/engine/collectives/collective.h"
#include "worker/engine/collectives/shm/shm_rank.h"

namespace dp::engine {

// Runs a collective over a segment. When this has returned, nobody touches the caller's memory;
// except that after an error, peers may still write to what the group has allocated. Errors:
// InvalidArgument states how the calls of two ranks differ; those of the rank's waits. After an
// error, nothing else may be run.
absl::Status RunOverShm(ShmRank& rank, const Collective& call);

}  // namespace dp::engine
