#pragma once

#include <vector>

#include "worker/engine/collectives/reduce/reduction.h"

namespace dp::engine {

// Consecutive ranks on one host, whose values that host combines before they travel.
struct RankBlock {
  int first = 0;
  int ranks = 1;
  int host = 0;

  bool operator==(const RankBlock&) const = default;
};

// Which rank does what in a group whose ranks are on several hosts. Every rank has the same plan.
// Each part of an array has an owner, the rank that makes its result. On every other host a deputy
// stands for the owner: it combines its host's values of that part, and passes the result on.
// Pure; does not change.
class HostPlan {
 public:
  // The number of each rank's host, by rank. Hosts count from 0 without gaps.
  explicit HostPlan(std::vector<int> host_of);

  int ranks() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(ranks_of_.size()); }
  int host_of(int rank) const { return host_of_[rank]; }
  // In ascending order.
  const std::vector<int>& ranks_of(int host) const { return ranks_of_[host]; }
  // Whether any host has several ranks.
  bool shares() const { return hosts() < ranks(); }

  // The blocks of a reduction, in rank order. They are as large as the order of the reduction and
  // the hosts of the ranks permit.
  std::vector<RankBlock> BlocksOf(ReduceOrder order) const;
  // The rank of `host` that handles the part of `owner`: its deputy, or the owner itself. Deputies
  // of one host share the owners of each other host evenly.
  int HandlerOf(int owner, int host) const;

 private:
  bool OnOneHost(int first, int ranks) const;
  void AddTreeBlocks(int first, int ranks, std::vector<RankBlock>* blocks) const;

  const std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_of_;  // by host
  std::vector<int> place_of_;               // by rank: its place in ranks_of_ of its host
};

}  // namespace dp::engine
