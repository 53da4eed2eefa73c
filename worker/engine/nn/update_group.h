#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// How an optimizer treats a parameter, once its own options and those of the parameter are put
// together.
struct UpdateGroup {
  double learning_rate_factor = 1;
  double weight_decay = 0;
  bool frozen = false;
  double momentum = 0;  // of a statistic, which is frozen for the optimizer

  bool operator==(const UpdateGroup&) const = default;
};

// The group of `parameter` by an optimizer that would decay it by `weight_decay`.
inline UpdateGroup GroupOf(const Parameter& parameter, double weight_decay) {
  const ParameterOptions& options = parameter.options;
  return {.learning_rate_factor = options.learning_rate_factor,
          .weight_decay = options.weight_decay.value_or(weight_decay),
          .frozen = options.frozen,
          .momentum = parameter.momentum};
}

// The values of `parameter`, and the gap behind them.
inline ValueRange RangeOf(const ParameterLayout& layout, size_t parameter) {
  const int64_t first = layout.parameters[parameter].offset;
  const bool last = parameter + 1 == layout.parameters.size();
  return {first, (last ? layout.size : layout.parameters[parameter + 1].offset) - first};
}

// The ranges of the values that are not frozen, as few as possible.
std::vector<ValueRange> TrainedRanges(const ParameterLayout& layout);

}  // namespace dp::engine
