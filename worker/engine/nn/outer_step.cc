#include "worker/engine/nn/outer_step.h"

#include <algorithm>

#include "base/check.h"
#include "worker/engine/nn/sgd.h"

namespace dp::engine {

void OuterGradient(absl::Span<const float> anchor, absl::Span<float> values) {
  DP_CHECK(anchor.size() == values.size());
  std::transform(anchor.begin(), anchor.end(), values.begin(), values.begin(),
                 [](float anchor_value, float value) { return anchor_value - value; });
}

void OuterStep(const OuterOptions& options, const ParameterLayout& layout,
               absl::Span<const float> gradients, absl::Span<float> velocity,
               absl::Span<float> anchor) {
  DP_CHECK(static_cast<int64_t>(anchor.size()) == layout.size);
  const auto trained = static_cast<size_t>(layout.Trained().size);
  SgdStep({.learning_rate = options.learning_rate,
           .momentum = static_cast<float>(options.momentum),
           .nesterov = options.nesterov},
          gradients.first(trained), velocity.first(trained), anchor.first(trained));
  for (size_t i = trained; i < anchor.size(); ++i) anchor[i] -= gradients[i];
}

}  // namespace dp::engine
