#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

namespace dp::engine {

// Runs the operations of `on_device`, a group over GPU memory, on host memory. One piece after the
// other goes to a buffer on the GPU, through an operation, and back. For small or rare data. Calls
// return when they have ended, so every rank needs a thread of its own. Each piece is one operation
// with the group's deadline.
// `staging_bytes` is a multiple of 4 and at least 4 * (size + 1). All ranks must give the same
// value, so that they cut the same pieces. Owned by its group, which outlives it with `api` and
// `stream`; used by the group's caller.
// Errors: ResourceExhausted the GPU has no room for the buffer.
absl::StatusOr<std::unique_ptr<Group>> MakeNcclOnHost(NcclApi& api, Group& on_device,
                                                      NcclApi::Stream stream,
                                                      int64_t staging_bytes);

}  // namespace dp::engine
