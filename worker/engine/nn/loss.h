#pragma once

#include <cstdint>
#include <variant>

#include "absl/types/span.h"

namespace dp::engine {

// Softmax cross-entropy, torch.nn.functional.cross_entropy. Smoothing s spreads that share of the
// target evenly over all classes.
struct CrossEntropyLoss {
  double label_smoothing = 0;  // at least 0 and below 1
};

// Each of these three is a mean over a row's outputs o and their targets t. They are PyTorch's
// mse_loss, l1_loss and binary_cross_entropy_with_logits.
struct MseLoss {};  // (o - t)²
struct L1Loss {};   // |o - t|
struct BceLoss {};  // log(1 + exp(o)) - o t, for targets from 0 to 1; others give NaN

// The Euclidean norm of all outputs of the batch, torch.linalg.vector_norm(output). It needs no
// targets, and is no mean over samples. The split of a step into ranks and parts therefore changes
// it. Its mean over them is weighted by their samples, as the others' is.
struct NormLoss {};

using Loss = std::variant<CrossEntropyLoss, MseLoss, L1Loss, BceLoss, NormLoss>;

// The outputs of a batch's rows, and what they should be. A row is a sample, or for cross-entropy
// one token of a sample. The first `rows` rows count; those above are padding.
struct LossInput {
  absl::Span<const float> outputs;  // at least rows x columns
  int columns = 1;
  int64_t rows = 0;
  absl::Span<const int32_t> labels;  // of cross-entropy: at least `rows`, each below `columns`
  absl::Span<const float> targets;   // of those that have targets: at least rows x columns
};

struct LossSum {
  double loss_sum = 0;  // over rows; its mean over rows is the loss
  int64_t correct = 0;  // of cross-entropy: rows whose largest output (the first) is the label's
};

// Pure.
LossSum SumLoss(const Loss& loss, const LossInput& input);

// d(scale * loss_sum) / d(outputs); zero in padding. `gradient` has the size of the outputs.
void LossGradient(const Loss& loss, const LossInput& input, float scale,
                  absl::Span<float> gradient);

// Whether a loss compares with targets; cross-entropy compares with labels.
bool HasTargets(const Loss& loss);

}  // namespace dp::engine
