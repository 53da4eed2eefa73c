#pragma once

#include <vector>

// Which ranks draw the unique ids that a communicator is made from. Pure.

namespace dp::engine {

// The ranks that share one id: `size` ranks need ceil(size / ranks_per_id) ids.
int NcclIdCount(int size, int ranks_per_id);

// The ranks that draw an id each, ascending: the first of each of `ids` contiguous shares, of which
// the first size % ids are larger by one. NCCL deals ranks to ids by the same rule (its user guide,
// "Creating a communicator using multiple ncclUniqueIds"), so each id's owner is in its share.
std::vector<int> RanksThatDrawIds(int size, int ids);

}  // namespace dp::engine
