#pragma once

#include <vector>

// Which ranks draw the unique ids that a communicator is made from. Pure.

namespace dp::engine {

// The number of ids for `size` ranks, each shared by at most `ranks_per_id` ranks.
int NcclIdCount(int size, int ranks_per_id);

// The ranks that draw an id each, ascending: the first rank of each of `ids` contiguous shares. The
// first size % ids shares are larger by one. NCCL assigns ranks to ids by the same rule (its user
// guide, "Creating a communicator using multiple ncclUniqueIds"). Each id's owner is therefore in
// its share.
std::vector<int> RanksThatDrawIds(int size, int ids);

}  // namespace dp::engine
