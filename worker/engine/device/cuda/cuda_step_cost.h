#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/device/cuda/cuda_layers.h"

// What a training step must move and compute, counted from its program: the floor under any
// measurement, and which operations to look at. Pure; it knows no card.

namespace dp::engine::cuda {

struct OperationCost {
  // Each array read once and written once, as if nothing stayed in a cache from one operation to
  // the next.
  int64_t bytes = 0;
  // Of products alone: 2 for each multiplication and addition. Causal attention counts the half
  // that is not masked.
  int64_t flops = 0;
  // Kernels and copies that are queued; of a library's product one, of a sort of keys three.
  int launches = 0;
};

OperationCost CostOf(const LayerProgram& program, const OperationKind& kind);

// Of the batch, from a data set that lies on the device.
OperationCost GatherCost(const LayerProgram& program);

// The optimizer's over flat buffers of `values` floats that keeps so many floats for each
// (`state_floats`: 1 for SGD with momentum, 2 for AdamW); `rounded` where it leaves bf16 values.
OperationCost OptimizerCost(int64_t values, int state_floats, bool rounded);

// All operations of one name, and together.
struct CostRow {
  std::string name;  // as Describe says it
  int count = 0;
  OperationCost cost;
  double seconds = 0;
};

// What a card does in a second. Attention has a rate of its own: no library comes near to that of
// products there.
struct CardRates {
  double bytes = 0;
  double flops = 0;
  double attention_flops = 0;
};

// Of a rank that is alone: a row "gather", those of the program's operations in the order in which
// it first has them, and one "optimizer". An operation takes as long as the longer of its bytes and
// its flops, and a launch nothing. Not counted are the two copies between host and device.
std::vector<CostRow> StepCosts(const LayerProgram& program, const CardRates& rates,
                               int state_floats);

}  // namespace dp::engine::cuda
