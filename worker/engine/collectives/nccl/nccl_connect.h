#pragma once

#include <stop_token>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "store/store.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_group.h"

namespace dp::engine {

// Draws and exchanges the unique ids through the store, and joins the communicator made from them.
// Chooses the calling thread's device. Blocks until the rank has joined, `options.connect_timeout`
// has passed, or `stop` is requested. The caller owns the communicator. Errors: as ConnectNccl.
absl::StatusOr<NcclApi::Communicator> JoinCommunicator(NcclApi& api, Store& store, int rank,
                                                       int size, const NcclOptions& options,
                                                       std::stop_token stop);

}  // namespace dp::engine
