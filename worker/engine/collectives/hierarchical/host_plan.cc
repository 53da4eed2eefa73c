#include "worker/engine/collectives/hierarchical/host_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace dp::engine {

HostPlan::HostPlan(std::vector<int> host_of) : host_of_(std::move(host_of)) {
  DP_CHECK(!host_of_.empty());
  ranks_of_.resize(static_cast<size_t>(*std::max_element(host_of_.begin(), host_of_.end())) + 1);
  for (int rank = 0; rank < ranks(); ++rank) {
    std::vector<int>& beside = ranks_of_[host_of_[rank]];
    place_of_.push_back(static_cast<int>(beside.size()));
    beside.push_back(rank);
  }
  for (const std::vector<int>& some : ranks_of_) DP_CHECK(!some.empty());
}

std::vector<RankBlock> HostPlan::BlocksOf(ReduceOrder order) const {
  std::vector<RankBlock> blocks;
  if (order == ReduceOrder::kTree) {
    AddTreeBlocks(0, ranks(), &blocks);
    return blocks;
  }
  int together = 1;
  while (together < ranks() && host_of_[together] == host_of_[0]) ++together;
  blocks.push_back({0, together, host_of_[0]});
  for (int rank = together; rank < ranks(); ++rank) blocks.push_back({rank, 1, host_of_[rank]});
  return blocks;
}

bool HostPlan::OnOneHost(int first, int ranks) const {
  const auto begin = host_of_.begin() + first;
  return std::all_of(begin, begin + ranks, [&](int host) { return host == *begin; });
}

// The node of the tree that has `ranks` ranks from `first` on (ReduceOrder::kTree).
void HostPlan::AddTreeBlocks(int first, int ranks, std::vector<RankBlock>* blocks) const {
  if (OnOneHost(first, ranks)) {
    blocks->push_back({first, ranks, host_of_[first]});
    return;
  }
  const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)) / 2);
  AddTreeBlocks(first, left, blocks);
  AddTreeBlocks(first + left, ranks - left, blocks);
}

int HostPlan::HandlerOf(int owner, int host) const {
  if (host_of_[owner] == host) return owner;
  const std::vector<int>& here = ranks_of_[host];
  return here[static_cast<size_t>(place_of_[owner]) % here.size()];
}

}  // namespace dp::engine
