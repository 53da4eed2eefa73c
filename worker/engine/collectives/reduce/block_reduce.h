#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "worker/engine/collectives/reduce/elements.h"
#include "worker/engine/collectives/reduce/reduce_loops.h"
#include "worker/engine/collectives/reduce/reduction.h"

// A reduction in two steps, with the bits of ReduceInOrder. A block is a node of the reduction's
// tree: consecutive ranks that are combined before any other rank. In rank order the first ranks
// are a block, and so is each other rank alone. The first step combines the ranks of a block, and
// the second the blocks. Between the two, values have the accumulator's type.

namespace dp::engine {

// In which values are combined: float32 for 16-bit floats, else the type itself.
DataType AccumulatorOf(DataType type);

// `out` gets the combination of the ranks of one block, in rank order. A mean is still a sum. `out`
// overlaps no input.
void ReduceBlock(absl::Span<const void* const> inputs, DataType type, size_t count,
                 Reduction reduction, void* out,
                 const ReduceLoops& loops = *LoopsOfThisProcessor().front());

// A block's combination.
struct CombinedBlock {
  int ranks = 1;
  const void* values = nullptr;
};

// `out` gets the reduction of all ranks, whose blocks stand in rank order. `out` overlaps no input.
void ReduceBlocks(absl::Span<const CombinedBlock> blocks, DataType type, size_t count,
                  Reduction reduction, void* out,
                  const ReduceLoops& loops = *LoopsOfThisProcessor().front());

}  // namespace dp::engine
