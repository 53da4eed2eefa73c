#include "worker/engine/nn/moving_average.h"

#include <algorithm>

#include "base/check.h"

namespace dp::engine {

void UpdateAverage(double decay, bool first, absl::Span<const float> values,
                   absl::Span<float> average) {
  DP_CHECK(values.size() == average.size());
  if (first) {
    std::copy(values.begin(), values.end(), average.begin());
    return;
  }
  const auto rest = static_cast<float>(1 - decay);
  const float* __restrict value = values.data();
  float* __restrict mean = average.data();
  for (size_t i = 0; i < values.size(); ++i) mean[i] = mean[i] + rest * (value[i] - mean[i]);
}

}  // namespace dp::engine
