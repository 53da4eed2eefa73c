#pragma once

#include "absl/types/span.h"

namespace dp::engine {

// Moves an average of the weights towards their values: average += (1 - decay) (value - average).
// The first update takes the values as they are. This is torch's AveragedModel with
// get_ema_multi_avg_fn(decay).
void UpdateAverage(double decay, bool first, absl::Span<const float> values,
                   absl::Span<float> average);

}  // namespace dp::engine
