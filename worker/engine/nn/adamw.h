#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

struct AdamWOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  // Whether biases and the weights of norms decay too; otherwise only matrices do (two axes or
  // more).
  bool decay_all = false;
  // torch.optim.Adam: the gradient g + d w takes the place of g, and values do not decay otherwise.
  bool decay_in_gradient = false;
};

// The decay of the options for this parameter: 0 for those that do not decay.
double WeightDecayOf(const AdamWOptions& options, const Parameter& parameter);

// The state of AdamW between steps, in the layout of the values; zeros at the start.
struct AdamWMoments {
  absl::Span<float> first;
  absl::Span<float> second;
};

// Step `step`, counted from 1, of torch.optim.AdamW over flat arrays in `layout`. w is a value, g
// its gradient, m and v its moments, r the learning rate, d the weight decay and t the step:
//
//    w = w - r d w;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g g;
//    w = w - r / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon).
//
// With decay_in_gradient it is torch.optim.Adam: g = g + d w comes first, in place of w - r d w.
// `gradient_factor` multiplies the gradients before all that. Parameters may have options of their
// own.
void AdamWStep(const AdamWOptions& options, int64_t step, const ParameterLayout& layout,
               absl::Span<const float> gradients, const AdamWMoments& moments,
               absl::Span<float> values, float gradient_factor = 1);

}  // namespace dp::engine
