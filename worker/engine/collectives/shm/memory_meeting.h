#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "store/store.h"
#include "worker/engine/collectives/links/link_place.h"
#include "worker/engine/collectives/shm/rank_watch.h"
#include "worker/engine/collectives/shm/shared_segment.h"

namespace dp::engine {

// A rank's part of a group whose ranks have met.
struct SharedMembership {
  SharedSegment segment;
  LifeLines life_lines;
  LinkMembership links;
};

// Brings the ranks of one host together (docs/collectives.md, "Shared memory"). Rank 0 makes a
// segment and hands it to its peers. A peer must run as the same user, and prove by a token from
// the store that it belongs to the group. Fails once `stopped`, called several times a second,
// answers true; `missing` then gets the ranks that did not arrive. The store is not used after this
// returns.
// Errors: FailedPrecondition the ranks cannot share memory, with the same reason on every rank.
// Unavailable a peer went away. Also the store's.
absl::StatusOr<SharedMembership> MeetInMemory(Store& store, int rank, int size,
                                              const std::function<bool()>& stopped,
                                              std::vector<int>* missing);

}  // namespace dp::engine
