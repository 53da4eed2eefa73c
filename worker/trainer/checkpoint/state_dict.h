#pragma once

#include <vector>

#include "absl/types/span.h"
#include "proto/weights/safetensors.h"
#include "worker/engine/nn/parameter.h"

namespace dp::trainer {

// The parameters in `values`, a host array in `layout`, in the order of a PyTorch state_dict: first
// layer first, weight before bias. Borrows from `values`.
std::vector<NamedTensor> StateDict(const engine::ParameterLayout& layout,
                                   absl::Span<const float> values);

}  // namespace dp::trainer
