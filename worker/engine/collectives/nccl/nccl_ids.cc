#include "worker/engine/collectives/nccl/nccl_ids.h"

#include "base/check.h"

namespace dp::engine {

int NcclIdCount(int size, int ranks_per_id) {
  DP_CHECK(size > 0 && ranks_per_id > 0);
  return (size + ranks_per_id - 1) / ranks_per_id;
}

std::vector<int> RanksThatDrawIds(int size, int ids) {
  DP_CHECK(ids > 0 && ids <= size);
  const int share = size / ids;
  const int larger = size % ids;
  std::vector<int> ranks;
  for (int i = 0, first = 0; i < ids; ++i) {
    ranks.push_back(first);
    first += i < larger ? share + 1 : share;
  }
  return ranks;
}

}  // namespace dp::engine
