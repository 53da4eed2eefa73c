#pragma once

#include <string>
#include <vector>

#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// A layout of parameters "p0", "p1", ... with these sizes, placed as LayOut places them.
inline ParameterLayout LayoutOfSizes(const std::vector<int64_t>& sizes) {
  ParameterLayout layout;
  for (int64_t size : sizes) {
    layout.parameters.push_back({.name = "p" + std::to_string(layout.parameters.size()),
                                 .shape = {size},
                                 .offset = layout.size,
                                 .size = size});
    layout.size += (size + 15) / 16 * 16;
  }
  return layout;
}

}  // namespace dp::engine
