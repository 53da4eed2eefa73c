#pragma once

#include "absl/types/span.h"

namespace dp::engine {

struct SgdOptions {
  double learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};

// One step of torch.optim.SGD (dampening 0) over flat arrays of equal size. Velocity starts at
// zero:
//
//    d = gradient + weight_decay value;  velocity = momentum velocity + d;
//    value = value - learning_rate (nesterov ? d + momentum velocity : velocity).
//
// `gradient_factor` multiplies the gradients first.
void SgdStep(const SgdOptions& options, absl::Span<const float> gradients,
             absl::Span<float> velocity, absl::Span<float> values, float gradient_factor = 1);

}  // namespace dp::engine
