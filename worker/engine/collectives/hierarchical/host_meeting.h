#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/store.h"
#include "worker/engine/collectives/hierarchical/host_plan.h"
#include "worker/engine/collectives/shm/host_card.h"

namespace dp::engine {

// The number of each rank's host, by the ranks' cards. Ranks are on one host where they could share
// memory. A host counts as several if it has more ranks than can share memory. Pure.
std::vector<int> HostsOf(const std::vector<HostCard>& cards);

// The same, where the ranks of the hosts in `split` are hosts of their own. Pure.
std::vector<int> WithHostsSplit(const std::vector<int>& host_of, const std::vector<int>& split);

// How a rank waits for its peers in the store (AwaitRanks).
struct HostWait {
  std::function<bool()> stopped;
  std::vector<int>* missing;
};

// Finds out which ranks are on one host. `apart` is part of the host's name: ranks with different
// ones are on different hosts. Uses keys of the store that begin with "hosts/card".
// Errors: Aborted, with the missing ranks, once `stopped` answers true. Also the store's.
absl::StatusOr<std::vector<int>> MeetHosts(Store& store, int rank, int size,
                                           const std::string& apart, const HostWait& wait);

// Tells all ranks why the ranks of this rank's host cannot share memory, or that they do (an empty
// text). The result is the same on every rank: the hosts of the ranks, where ranks that cannot
// share memory are hosts of their own. `why_not` gets the first reason of a peer if it is empty.
absl::StatusOr<std::vector<int>> AgreeWhoShares(Store& store, int rank,
                                                const std::vector<int>& host_of,
                                                const HostWait& wait, std::string* why_not);

}  // namespace dp::engine
