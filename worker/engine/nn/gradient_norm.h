#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// The norm of gradients, summed in an order that depends on nothing but the ranges. Every device
// and every rank thus gets the same bits. A range is cut into chunks. In a chunk, lane l sums the
// values l, l + kNormLanes, ...; the lanes' sums are added as a tree. The
// chunks' sums are added in the same way.
inline constexpr int64_t kNormChunk = int64_t{1} << 16;
inline constexpr int kNormLanes = 256;

// The Euclidean norm of the values in `ranges`. NaN if one of them is.
float GradientNorm(absl::Span<const ValueRange> ranges, absl::Span<const float> gradients);

}  // namespace dp::engine
