#include "worker/engine/nn/sgd.h"

#include "base/check.h"

namespace dp::engine {
namespace {

// A template, so that the loop has no branch and vectorizes.
template <bool kNesterov>
void UpdateBySgd(const SgdOptions& options, float gradient_factor, size_t size,
                 const float* __restrict gradient, float* __restrict v, float* __restrict value) {
  const auto learning_rate = static_cast<float>(options.learning_rate);
  const float momentum = options.momentum, weight_decay = options.weight_decay;
  for (size_t i = 0; i < size; ++i) {
    const float d = gradient[i] * gradient_factor + weight_decay * value[i];
    v[i] = momentum * v[i] + d;
    value[i] -= learning_rate * (kNesterov ? d + momentum * v[i] : v[i]);
  }
}

}  // namespace

void SgdStep(const SgdOptions& options, absl::Span<const float> gradients,
             absl::Span<float> velocity, absl::Span<float> values, float gradient_factor) {
  DP_CHECK(gradients.size() == values.size() && velocity.size() == values.size());
  const auto update = options.nesterov ? UpdateBySgd<true> : UpdateBySgd<false>;
  update(options, gradient_factor, values.size(), gradients.data(), velocity.data(), values.data());
}

}  // namespace dp::engine
