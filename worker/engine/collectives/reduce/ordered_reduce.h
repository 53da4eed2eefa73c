#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "worker/engine/collectives/reduce/elements.h"
#include "worker/engine/collectives/reduce/reduce_loops.h"
#include "worker/engine/collectives/reduce/reduction.h"

namespace dp::engine {

// A range of a flat array. The rank that owns it reduces it for all ranks.
struct Slice {
  size_t begin = 0;
  size_t count = 0;
};

// The slice of rank `rank`: `size` ranks share `total` elements in contiguous, nearly equal slices.
// Each begins on a cache line if the elements have 4 bytes or more. The last ranks may get nothing.
Slice SliceOf(size_t total, int rank, int size);

// out[i] = inputs[0][i] op inputs[1][i] op ... in exactly the order of `reduction`. The mean is the
// sum times the float nearest to 1 / inputs.size(), and only for floats. Floats of 16 bits are
// combined as float32, and rounded once. `out` may be one of the inputs; other overlaps are not
// allowed. Needs at least one input.
void ReduceInOrder(absl::Span<const void* const> inputs, DataType type, size_t count,
                   Reduction reduction, void* out,
                   const ReduceLoops& loops = *LoopsOfThisProcessor().front());

}  // namespace dp::engine
