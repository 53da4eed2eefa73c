#pragma once

#include <cstddef>

#include "worker/engine/collectives/reduce/elements.h"
#include "worker/engine/collectives/reduce/reduction.h"

namespace dp::engine {

// The loops over elements by which groups reduce, compiled for one instruction set. Every set gives
// the same bits: no element depends on another, and no multiplication is fused with an addition.
struct ReduceLoops {
  // out[i] = a[i] op b[i]. `out` may be `a` or `b`. A mean is combined as a sum.
  using Combine = void (*)(const void* a, const void* b, size_t count, void* out);
  using Widen = void (*)(const void* halves, size_t count, float* out);
  using Narrow = void (*)(const float* values, size_t count, void* halves);

  absl::string_view instructions;
  // Null for 16-bit floats, which are combined as float32.
  Combine (*combine)(DataType type, ReduceOp op);
  // For 16-bit floats only.
  Widen (*widen)(DataType type);
  Narrow (*narrow)(DataType type);
  void (*scale_float32)(float* values, size_t count, float by);
  void (*scale_float64)(double* values, size_t count, double by);
};

// The sets that this build has and this processor runs, best first. Never empty.
absl::Span<const ReduceLoops* const> LoopsOfThisProcessor();

}  // namespace dp::engine
