#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dp/ddp.h"

// ZeRO, stage 1: each rank keeps the states of an optimizer for its share of the parameters.

namespace dp::library {
class ShardedStates;
}

namespace dp::distributed {

// A part of one parameter, as an optimizer updates it.
struct OptimizerPiece {
  size_t parameter = 0;  // by its index in Module::parameters
  size_t begin = 0;      // the piece's first element within the parameter
  // In the memory of the parameter. Over backend nccl, an update gives its kernels to the program's
  // stream.
  std::span<float> values;
  std::span<const float> gradients;  // their mean over the ranks
  // The optimizer's states of these values, which begin at zero: momentum, for example.
  std::vector<std::span<float>> states;
};

// Divides the work and the states of an optimizer among the ranks of a DistributedDataParallel. A
// backward then leaves each rank the mean of its share of the gradients alone, by a reduce-scatter.
// step() updates that share, and gathers the values. It moves as many bytes as the all-reduce of a
// backward does, and gives the bits that the same optimizer gives on every rank.
//
//   dp::DistributedDataParallel ddp(model);
//   dp::ZeroRedundancyOptimizer optimizer(ddp, 1, [&](const dp::OptimizerPiece& piece) {
//     for (size_t i = 0; i < piece.values.size(); ++i) {
//       float& momentum = piece.states[0][i];
//       momentum = 0.9f * momentum + piece.gradients[i];
//       piece.values[i] -= rate * momentum;
//     }
//   });
//
// After a backward ddp.gradients() are no mean; clip_grad_norm of this class clips. After this
// object has ended, steps of the ddp are a kWrongState, because it keeps dealing shares. Every rank
// makes the same calls in the same order. An `update` that throws no std::exception is a
// kProgramFailed.
// The ddp outlives this object, and has float parameters.
class ZeroRedundancyOptimizer {
 public:
  using Update = std::function<void(const OptimizerPiece& piece)>;

  // `states` floats are kept for each value, 1,024 at most. Before the first backward. Blocks until
  // every rank has called it. After an error the ddp deals shares that nobody holds: make it anew.
  // Errors: kUnsupported a parameter is not of float32. kInvalidArgument the ddp has an option or a
  // hook that needs whole gradients. kWrongState a backward has been. kMismatch ranks give
  // different numbers of states. kLimit there are too many. Also those of operations.
  ZeroRedundancyOptimizer(DistributedDataParallel& ddp, size_t states, Update update);
  ~ZeroRedundancyOptimizer();

  // Calls the update for each piece of this rank's share; then every rank gets all values.
  void step();
  // As the function of that name, over all ranks' shares.
  double clip_grad_norm(double max_norm);

  // All ranks' states together, on rank `to` of the group; nothing on the others. Errors:
  // kInvalidArgument there is no such rank.
  OptimizerStates consolidate(int to = 0) const;
  // Takes this rank's share of whole states, which may come from another number of ranks. Every
  // rank has them. Errors: kInvalidArgument names the parameter that is missing or of another size.
  void load(const OptimizerStates& states);

  // The floats of states that this rank keeps.
  size_t floats_kept() const;

 private:
  const Update update_;
  std::unique_ptr<library::ShardedStates> shards_;
};

}  // namespace dp::distributed
