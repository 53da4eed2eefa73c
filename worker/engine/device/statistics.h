#pragma once

#include <memory>

#include "absl/types/span.h"
#include "worker/engine/device/device.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// An optimizer of all of a layout's parameters: `trained`, made for layout.Trained(), takes each
// step for these, and StepStatistics for the others. Its state is that of `trained`. On the CPU,
// whose arrays are host memory. Gives `trained` itself where the layout has no statistics.
std::unique_ptr<Optimizer> WithStatistics(std::unique_ptr<Optimizer> trained,
                                          const ParameterLayout& layout,
                                          absl::Span<const float> gradients,
                                          absl::Span<float> values);

}  // namespace dp::engine
