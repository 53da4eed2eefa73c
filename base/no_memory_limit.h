#pragma once

namespace dp {

// The label of a worker that cannot limit the memory of its ranks. The worker's daemon sets it. A
// job with memoryMibPerRank implicitly requires its absence. Daemons of earlier releases never set
// it.
inline constexpr char kNoMemoryLimit[] = "no-memory-limit";

}  // namespace dp
