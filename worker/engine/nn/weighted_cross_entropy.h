#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "worker/engine/nn/loss.h"

namespace dp::engine {

// Cross-entropy whose rows weigh differently: torch.nn.CrossEntropyLoss with `weight` and
// `ignore_index`. Let p be the softmax of a row, y its label, w the weights of the C classes, and s
// the smoothing. The row's loss is
//
//     (1 - s) w[y] (-log p[y]) + s / C sum over c of w[c] (-log p[c])
//
// and its weight is w[y]. A row with the ignored label has neither loss, weight nor gradient. Pure.

LossSum SumWeighted(const CrossEntropyLoss& loss, const LossInput& input);

// d(scale * loss_sum) / d(outputs); zero in ignored rows and in padding.
void WeightedGradient(const CrossEntropyLoss& loss, const LossInput& input, float scale,
                      absl::Span<float> gradient);

LabelTotals WeightedTotals(const CrossEntropyLoss& loss, absl::Span<const int32_t> labels);

}  // namespace dp::engine
