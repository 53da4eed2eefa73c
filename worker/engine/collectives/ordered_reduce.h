#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// The elements of a flat array that one rank owns: reduces for all.
struct Slice {
  size_t begin = 0;
  size_t count = 0;
};

// Rank `rank`'s part of `total` elements dealt to `size` ranks in contiguous, nearly equal slices,
// each beginning on a cache line. Late ranks may get nothing.
Slice SliceOf(size_t total, int rank, int size);

// out[i] = inputs[0][i] op inputs[1][i] op ... in exactly that order; the mean is that sum times
// the float nearest to 1 / inputs.size(). `out` may be one of the inputs; other overlaps are not
// allowed. There is at least one input.
void ReduceInOrder(absl::Span<const float* const> inputs, size_t count, ReduceOp op, float* out);

}  // namespace dp::engine
