#pragma once

namespace dp {

// The label of a worker that cannot limit the memory of its ranks. Its daemon sets it, and a job
// with memoryMibPerRank implies that it must be absent. Daemons of earlier releases never set it.
inline constexpr char kNoMemoryLimit[] = "no-memory-limit";

}  // namespace dp
