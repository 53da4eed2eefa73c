#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl_api.h"

namespace dp::engine {

// Operations of `on_device`, whose memory is a GPU's, over memory of the host: a piece after the
// other goes to a buffer on the GPU, through an operation, and back. For what is small or rare.
// Calls return when they have ended, so every rank needs a thread of its own; each piece is an
// operation with the group's deadline. Pieces are equal on all ranks, which must have equal
// `staging_bytes`, 4 or more for each rank and one more. Owned by its group, which with `api` and
// `stream` outlives it; used by the group's caller.
// Errors: ResourceExhausted the GPU has no room for the buffer.
absl::StatusOr<std::unique_ptr<Group>> MakeNcclOnHost(NcclApi& api, Group& on_device,
                                                      NcclApi::Stream stream,
                                                      int64_t staging_bytes);

}  // namespace dp::engine
