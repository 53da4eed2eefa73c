#pragma once

#include "absl/types/span.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// The outer optimizer of local SGD: SGD over what the ranks' own steps have changed.
struct OuterOptions {
  double learning_rate = 0.7;
  double momentum = 0.9;
  bool nesterov = true;
};

// Local SGD in rounds (DiLoCo: Douillard et al. 2023, arXiv:2311.08105). All ranks begin a round
// with the same values, the anchor. Each takes the round's steps by itself. The outer gradient is
// the mean over ranks of what OuterGradient gives, and OuterStep moves the anchor by it. A learning
// rate of 1 without momentum gives the mean of the ranks' values: local SGD (Stich 2018).
//
// values = anchor - values, over arrays of equal size.
void OuterGradient(absl::Span<const float> anchor, absl::Span<float> values);

// One step of the outer optimizer, over arrays in `layout`; the velocity starts at zero:
//
//    velocity = momentum velocity + gradient;
//    anchor = anchor - learning_rate (nesterov ? gradient + momentum velocity : velocity).
//
// Running statistics become the mean of the ranks' statistics. Each step of a rank is linear in its
// statistics, so the mean is that of all samples.
void OuterStep(const OuterOptions& options, const ParameterLayout& layout,
               absl::Span<const float> gradients, absl::Span<float> velocity,
               absl::Span<float> anchor);

}  // namespace dp::engine
