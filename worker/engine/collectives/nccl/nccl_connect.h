#pragma once

#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "store/store.h"
#include "worker/engine/collectives/links/link_place.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_group.h"

namespace dp::engine {

struct NcclMembership {
  NcclApi::Communicator communicator = nullptr;
  // Errors: none if the options ask for no messages; those of LinkDoors.
  absl::StatusOr<LinkMembership> links;
};

// Draws and exchanges the unique ids through the store, and joins the communicator made from them.
// Chooses the calling thread's device. Blocks until the rank has joined, `options.connect_timeout`
// has passed, or `stop` is requested. The caller owns the communicator. Errors: as ConnectNccl.
absl::StatusOr<NcclMembership> JoinCommunicator(NcclApi& api, Store& store, int rank, int size,
                                                const NcclOptions& options, std::stop_token stop);

// The number of ids for `size` ranks, each shared by at most `ranks_per_id` ranks.
int NcclIdCount(int size, int ranks_per_id);

// The ranks that draw an id each, ascending: the first rank of each of `ids` contiguous shares. The
// first size % ids shares are larger by one. NCCL assigns ranks to ids by the same rule (its user
// guide, "Creating a communicator using multiple ncclUniqueIds"). Each id's owner is therefore in
// its share.
std::vector<int> RanksThatDrawIds(int size, int ids);

}  // namespace dp::engine
