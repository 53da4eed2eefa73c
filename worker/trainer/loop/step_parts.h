#pragma once

#include "worker/engine/data/sampler.h"
#include "worker/engine/device/batch_part.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// The rows for which a network is compiled, so that a rank's share of a step takes
// plan.accumulate parts at most.
int RowsOf(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler);

// The samples that `ranks` ranks take together in each batch of an evaluation: their networks have
// rows for one part of a step.
int EvaluationBatchOf(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler,
                      int ranks);

// Cuts a rank's share of a step into parts of one size in rows. Not thread-safe.
class StepParts {
 public:
  explicit StepParts(int rows) : rows_(rows) {}

  // How many parts hold samples; at least one.
  int CountOf(const engine::Batch& share) const { return CountFor(share.count); }
  int CountFor(int64_t samples) const;
  // Part `index` of `share`, which has no samples if they fill fewer parts. Borrows from both, and
  // from this until the next call.
  engine::Batch PartOf(const engine::Batch& share, int index);

 private:
  const int rows_;
  engine::BatchPart part_;
};

}  // namespace dp::trainer
