#pragma once

#include <memory>

#include "absl/types/span.h"
#include "worker/engine/nn/optimizer.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// An optimizer over host memory, which defines those of every device. `values` and `gradients` are
// arrays in `layout` and outlive it. Pure. Throws std::bad_alloc.
std::unique_ptr<Optimizer> MakeHostOptimizer(const OptimizerOptions& options,
                                             const ParameterLayout& layout,
                                             absl::Span<float> values,
                                             absl::Span<const float> gradients);

}  // namespace dp::engine
