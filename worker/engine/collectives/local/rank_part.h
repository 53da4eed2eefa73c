#pragma once

#include "absl/types/span.h"
#include "worker/engine/collectives/collective.h"

namespace dp::engine {

// Does the part of `rank` in a collective whose `calls` of all ranks, in rank order, agree. When
// every rank's part is done, in any order or at the same time, the collective is. Every rank reads
// its peers' inputs and writes its own output; in an all-reduce also theirs.
void RunPartOf(int rank, absl::Span<const Collective* const> calls);

}  // namespace dp::engine
