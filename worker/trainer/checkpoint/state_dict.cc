#include "worker/trainer/checkpoint/state_dict.h"

#include <algorithm>

namespace dp::trainer {

std::vector<NamedTensor> StateDict(const engine::ParameterLayout& layout,
                                   absl::Span<const float> values) {
  std::vector<NamedTensor> tensors;
  for (const engine::Parameter& parameter : layout.parameters) {
    tensors.push_back({parameter.name, parameter.shape,
                       values.subspan(static_cast<size_t>(parameter.offset),
                                      static_cast<size_t>(parameter.size))});
  }
  std::reverse(tensors.begin(), tensors.end());
  return tensors;
}

}  // namespace dp::trainer
