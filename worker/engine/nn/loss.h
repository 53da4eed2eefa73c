#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/types/span.h"

namespace dp::engine {

// Softmax cross-entropy, torch.nn.functional.cross_entropy. Smoothing s spreads that share of the
// target evenly over all classes. A row weighs as much as its label's class; the mean over rows
// divides by the sum of their weights. A row with the ignored label weighs nothing.
struct CrossEntropyLoss {
  double label_smoothing = 0;             // at least 0 and below 1
  std::optional<int32_t> ignored = {};    // a label, which need not be a class
  std::vector<float> class_weights = {};  // one for each class, 0 or more; empty: all are 1
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
  // For cross-entropy: at least `rows`, each below `columns` unless it is ignored.
  absl::Span<const int32_t> labels;
  absl::Span<const float> targets;  // of those that have targets: at least rows x columns
};

struct LossSum {
  double loss_sum = 0;  // over rows; divided by LabelTotals::weight, it is the loss
  // For cross-entropy: rows whose largest output (the first) is the label's; none that is ignored.
  int64_t correct = 0;
};

// The count and the weight of some labels.
struct LabelTotals {
  int64_t counted = 0;  // labels that are not ignored
  double weight = 0;    // the sum of their weights
};

// Pure.
LossSum SumLoss(const Loss& loss, const LossInput& input);

// d(scale * loss_sum) / d(outputs); zero in padding. `gradient` has the size of the outputs.
void LossGradient(const Loss& loss, const LossInput& input, float scale,
                  absl::Span<float> gradient);

// For cross-entropy there are at least `rows` labels. Each row counts 1 for other losses, which
// need no labels.
LabelTotals TotalsOf(const Loss& loss, int64_t rows, absl::Span<const int32_t> labels);

// Whether labels may weigh other than 1. The weight of a batch then depends on its labels.
bool WeighsLabels(const Loss& loss);

// Whether a loss compares with targets; cross-entropy compares with labels.
bool HasTargets(const Loss& loss);

}  // namespace dp::engine
