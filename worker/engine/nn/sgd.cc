#include "worker/engine/nn/sgd.h"

#include "base/check.h"

namespace dp::engine {

void SgdStep(const SgdOptions& options, absl::Span<const float> gradients,
             absl::Span<float> velocity, absl::Span<float> values) {
  DP_CHECK(gradients.size() == values.size() && velocity.size() == values.size());
  const float* __restrict gradient = gradients.data();
  float* __restrict v = velocity.data();
  float* __restrict value = values.data();
  const auto [learning_rate, momentum, weight_decay] = options;
  for (size_t i = 0; i < values.size(); ++i) {
    v[i] = momentum * v[i] + (gradient[i] + weight_decay * value[i]);
    value[i] -= learning_rate * v[i];
  }
}

}  // namespace dp::engine
