#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "dp/zero.h"
#include "worker/library/ddp/bucket_shards.h"
#include "worker/library/ddp/module_reducer.h"

namespace dp::library {

// One rank's share of an optimizer: the implementation of ZeroRedundancyOptimizer, whose header
// says what each call does. Throws DistError. The reducer outlives it.
class ShardedStates {
 public:
  ShardedStates(ModuleReducer& reducer, size_t states);

  void CheckBetweenBackwards(absl::string_view call) const { reducer_.CheckFinished(call); }
  void ForEachPiece(const std::function<void(const distributed::OptimizerPiece&)>& each);
  // Every rank gets the values of all shares.
  void GatherValues();
  double ClipGradients(double max_norm);
  distributed::OptimizerStates Consolidate(int to) const;
  void Load(const distributed::OptimizerStates& states);
  size_t floats_kept() const;

 private:
  // A bucket and this rank's share of it.
  struct Share {
    engine::Bucket bucket;
    BucketShard shard;
    std::vector<ShardPiece> pieces;
    std::vector<BorrowedMemory> states;  // by state: floats of the share
  };
  GroupMemory& memory() const { return reducer_.member().memory(); }
  static absl::Span<float> StateOf(const Share& share, size_t state);

  ModuleReducer& reducer_;
  const std::shared_ptr<const void> dealt_;
  const size_t states_;
  std::vector<Share> shares_;  // by bucket
  absl::Span<float> values_;   // the group's memory, in the layout of the gradients
};

}  // namespace dp::library
