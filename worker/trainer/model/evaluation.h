#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/nn/measure_sums.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

struct Evaluation {
  // Mean over all labels, one per image or one per token, by their weights. NaN if none counts.
  double loss = 0;
  // The share of labels that were predicted correctly, 0 to 1; none where the loss has no labels.
  // Labels that the loss ignores do not count.
  std::optional<double> accuracy;
  std::optional<double> perplexity = {};  // of texts with cross-entropy: exp(loss)
  int64_t samples = 0;
  engine::Measures measures = {};
};

struct EvaluationOptions {
  int prefetch_threads = 1;
  bool confusion = false;  // with cross-entropy: takes the confusion matrix
};

// Evaluates the network of `model` on all of `dataset`, in global batches of `global_batch_size`.
// Each sample is evaluated by exactly one rank of `group`, and every rank gets the same result. All
// counts are exact, and other sums are of float64. The
// network must be compiled for at least ceil(global_batch_size / ranks) rows. Errors: those of the
// group; those of the device, in which case this rank's share reaches no other rank.
absl::StatusOr<Evaluation> Evaluate(RankModel& model, const engine::Dataset& dataset,
                                    int global_batch_size, engine::Group& group,
                                    const EvaluationOptions& options = {});

// The same by this process alone, which evaluates the share of each of `ranks` ranks in turn. The
// result has the bits of Evaluate in a group of so many ranks. Errors: the device's.
absl::StatusOr<Evaluation> EvaluateAlone(RankModel& model, const engine::Dataset& dataset,
                                         int global_batch_size, int ranks,
                                         const EvaluationOptions& options = {});

}  // namespace dp::trainer
