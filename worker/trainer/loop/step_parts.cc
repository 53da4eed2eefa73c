#include "worker/trainer/loop/step_parts.h"

#include <algorithm>

namespace dp::trainer {

int RowsOf(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler) {
  return (sampler.capacity() + plan.accumulate - 1) / plan.accumulate;
}

int EvaluationBatchOf(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler,
                      int ranks) {
  const int64_t rows = int64_t{RowsOf(plan, sampler)} * ranks;
  return static_cast<int>(std::min<int64_t>(rows, plan.global_batch_size));
}

int StepParts::CountFor(int64_t samples) const {
  return static_cast<int>(std::max<int64_t>(1, (samples + rows_ - 1) / rows_));
}

engine::Batch StepParts::PartOf(const engine::Batch& share, int index) {
  const int first = rows_ * index;
  return part_.Of(share, first, std::clamp(share.count - first, 0, rows_), rows_);
}

}  // namespace dp::trainer
