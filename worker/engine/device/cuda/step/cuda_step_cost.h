#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/device/cuda/layers/cuda_layers.h"

// The bytes and flops that a training step needs at least, counted from its program. They are the
// floor under any measurement, and show which operations to look at. Pure; it knows no card.

namespace dp::engine::cuda {

struct OperationCost {
  // Each array is read once and written once, as if no cache kept anything from one operation to
  // the next.
  int64_t bytes = 0;
  // Counts products alone: 2 for each multiplication and addition. Causal attention counts the half
  // that is not masked.
  int64_t flops = 0;
  // Kernels and copies that are queued: one for a library's product, three for a sort of keys.
  int launches = 0;
  // Bytes that move besides where the epilogue of a product is a kernel of its own, behind it. A
  // bias by itself is always part of the product.
  int64_t apart_bytes = 0;
};

OperationCost CostOf(const LayerProgram& program, const OperationKind& kind);

// The cost of gathering the batch from a data set that lies on the device.
OperationCost GatherCost(const LayerProgram& program);

// The cost of an optimizer over flat buffers of `values` floats. For each value the optimizer keeps
// `state_floats` floats: 1 for SGD with momentum, 2 for AdamW. With `rounded` it also writes bf16
// values.
OperationCost OptimizerCost(int64_t values, int state_floats, bool rounded);

// All operations of one name, together.
struct CostRow {
  std::string name;  // as Describe gives it
  int count = 0;
  OperationCost cost;
  double seconds = 0;
};

// A card's rates per second. Attention has a rate of its own, because no library comes near the
// rate of products there.
struct CardRates {
  double bytes = 0;
  double flops = 0;
  double attention_flops = 0;
  bool fused = true;  // products have their epilogues; otherwise these are kernels of their own
};

// The step of a rank that is alone: a row "gather", the program's operations in the order of their
// first use, and a row "optimizer". An operation takes as long as the longer of its bytes and its
// flops, and a launch takes nothing. The two copies between host and device are not counted.
std::vector<CostRow> StepCosts(const LayerProgram& program, const CardRates& rates,
                               int state_floats);

}  // namespace dp::engine::cuda
