#pragma once

#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/store/store.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl_api.h"

namespace dp::engine {

struct NcclOptions {
  GroupOptions group;
  // How long the ranks may take to find each other.
  absl::Duration connect_timeout = absl::Minutes(5);
  int device = 0;
  // Where the caller computes: an operation begins after what was given to this stream before it.
  NcclApi::Stream compute_stream = nullptr;
};

// Joins `size` ranks, each with a GPU of its own, over NCCL. Operations take device memory. They
// find each other through `store`, where nobody else uses keys that begin with "nccl/"; it is not
// used after this returns. `api` outlives the group. Sums are NCCL's: the same bits run after run
// on the same hosts, but not in rank order. A peer's end is known only from NCCL's error, which
// does not name it, and a late operation does not name the ranks it waits for. Errors: as
// ConnectGloo, and those of NcclApi.
absl::StatusOr<std::unique_ptr<Group>> ConnectNccl(NcclApi& api, Store& store, int rank, int size,
                                                   const NcclOptions& options,
                                                   std::stop_token stop = {});

}  // namespace dp::engine
