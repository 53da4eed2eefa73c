#pragma once

#include "absl/status/status.h"
#include "worker/engine/collectives/collective.h"
#include "worker/engine/collectives/shm/shm_rank.h"

namespace dp::engine {

// The collectives that reduce, over a segment (docs/collectives.md, "Shared memory"). When one has
// returned, nobody touches the caller's memory. Errors: those of ShmRank; after one, no other
// collective may be called.
absl::Status ShmAllReduce(ShmRank& rank, const Collective& call);
absl::Status ShmReduce(ShmRank& rank, const Collective& call);
absl::Status ShmReduceScatter(ShmRank& rank, const Collective& call);

}  // namespace dp::engine
