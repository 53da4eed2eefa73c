#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/data/dataset.h"
#include "worker/trainer/rank_model.h"

namespace dp::trainer {

struct Evaluation {
  double loss = 0;      // mean over the samples, or over all their tokens
  double accuracy = 0;  // share of them whose label was guessed, 0 to 1
  int64_t samples = 0;
};

// Runs the network of `model` over all of `dataset`, each sample on exactly one rank of `group`, in
// global batches of `global_batch_size`; every rank gets the same answer. The network is compiled
// for at least ceil(global_batch_size / ranks) rows. Errors: those of the device, whose share then
// reaches no other rank, and of the group.
absl::StatusOr<Evaluation> Evaluate(RankModel& model, const engine::Dataset& dataset,
                                    int global_batch_size, engine::Group& group);

}  // namespace dp::trainer
