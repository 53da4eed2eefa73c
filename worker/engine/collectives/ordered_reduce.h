#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// A range of a flat array. The rank that owns it reduces it for all ranks.
struct Slice {
  size_t begin = 0;
  size_t count = 0;
};

// The slice of rank `rank`: `size` ranks share `total` elements in contiguous, nearly equal slices,
// each beginning on a cache line. The last ranks may get nothing.
Slice SliceOf(size_t total, int rank, int size);

// out[i] = inputs[0][i] op inputs[1][i] op ... in exactly that order. The mean is the sum times the
// float nearest to 1 / inputs.size(). `out` may be one of the inputs; other overlaps are not
// allowed. Needs at least one input.
void ReduceInOrder(absl::Span<const float* const> inputs, size_t count, ReduceOp op, float* out);

}  // namespace dp::engine
