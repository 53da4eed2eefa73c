#pragma once

#include <memory>

#include "absl/types/span.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// The optimizer of Device::MakeOptimizer over host memory. Throws std::bad_alloc.
std::unique_ptr<Optimizer> MakeCpuOptimizer(const OptimizerOptions& options,
                                            const ParameterLayout& layout, absl::Span<float> values,
                                            absl::Span<const float> gradients);

}  // namespace dp::engine
