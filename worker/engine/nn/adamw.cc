#include "worker/engine/nn/adamw.h"

#include <cmath>

#include "base/check.h"
#include "worker/engine/nn/update_group.h"

namespace dp::engine {
namespace {

// The factors of one step.
struct AdamWFactors {
  float keep;   // 1 for a value that does not decay
  float decay;  // of a value that decays by its gradient, else 0
  float beta1, beta1_rest;
  float beta2, beta2_rest;
  float rate;         // learning rate, corrected for the first moment's start at zero
  float second_root;  // the same correction for the root of the second moment
  float epsilon;
  float gradient;
};

AdamWFactors FactorsOf(const AdamWOptions& options, const UpdateGroup& group, int64_t step,
                       float gradient_factor) {
  const double t = static_cast<double>(step);
  const double rate = options.learning_rate * group.learning_rate_factor;
  const auto f = [](double value) { return static_cast<float>(value); };
  const bool in_gradient = options.decay_in_gradient;
  return {.keep = in_gradient ? 1.0f : f(1 - rate * group.weight_decay),
          .decay = in_gradient ? f(group.weight_decay) : 0.0f,
          .beta1 = f(options.beta1),
          .beta1_rest = f(1 - options.beta1),
          .beta2 = f(options.beta2),
          .beta2_rest = f(1 - options.beta2),
          .rate = f(rate / (1 - std::pow(options.beta1, t))),
          .second_root = f(std::sqrt(1 - std::pow(options.beta2, t))),
          .epsilon = f(options.epsilon),
          .gradient = gradient_factor};
}

// A template, so that the loop has no branch and vectorizes.
template <bool kDecaysInGradient>
void UpdateByAdamW(const AdamWFactors& f, int64_t size, const float* __restrict gradient,
                   float* __restrict first, float* __restrict second, float* __restrict value) {
  for (int64_t i = 0; i < size; ++i) {
    float g = gradient[i] * f.gradient;
    if (kDecaysInGradient) g = g + f.decay * value[i];
    first[i] = f.beta1 * first[i] + f.beta1_rest * g;
    second[i] = f.beta2 * second[i] + f.beta2_rest * g * g;
    const float root = std::sqrt(second[i]) / f.second_root + f.epsilon;
    value[i] = value[i] * f.keep - f.rate * (first[i] / root);
  }
}

}  // namespace

double WeightDecayOf(const AdamWOptions& options, const Parameter& parameter) {
  return options.decay_all || parameter.shape.size() >= 2 ? options.weight_decay : 0;
}

void AdamWStep(const AdamWOptions& options, int64_t step, const ParameterLayout& layout,
               absl::Span<const float> gradients, const AdamWMoments& moments,
               absl::Span<float> values, float gradient_factor) {
  DP_CHECK(step >= 1 && static_cast<int64_t>(values.size()) == layout.size);
  DP_CHECK(gradients.size() == values.size() && moments.first.size() == values.size() &&
           moments.second.size() == values.size());
  for (const Parameter& p : layout.parameters) {
    const UpdateGroup group = GroupOf(p, WeightDecayOf(options, p));
    if (group.frozen) continue;
    const AdamWFactors factors = FactorsOf(options, group, step, gradient_factor);
    const auto update = factors.decay != 0 ? UpdateByAdamW<true> : UpdateByAdamW<false>;
    update(factors, p.size, gradients.data() + p.offset, moments.first.data() + p.offset,
           moments.second.data() + p.offset, values.data() + p.offset);
  }
}

}  // namespace dp::engine
