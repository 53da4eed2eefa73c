#include "worker/trainer/loop/step_parts.h"

#include <algorithm>

namespace dp::trainer {
namespace {

// The rows from `first` on of an array of `rows_of_share` rows, padded to `rows` in `memory` if
// they are fewer.
template <typename T>
absl::Span<const T> RowsFrom(absl::Span<const T> values, size_t rows_of_share, size_t first,
                             size_t rows, std::vector<T>& memory) {
  const size_t row = values.size() / rows_of_share;
  const absl::Span<const T> part = values.subspan(first * row, rows * row);
  if (part.size() == rows * row) return part;
  memory.assign(rows * row, T());
  std::copy(part.begin(), part.end(), memory.begin());
  return memory;
}

}  // namespace

int RowsOf(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler) {
  return (sampler.capacity() + plan.accumulate - 1) / plan.accumulate;
}

int StepParts::CountFor(int64_t samples) const {
  return static_cast<int>(std::max<int64_t>(1, (samples + rows_ - 1) / rows_));
}

engine::Batch StepParts::PartOf(const engine::Batch& share, int index) {
  const size_t rows_of_share = share.samples.size();
  if (index == 0 && rows_of_share == static_cast<size_t>(rows_)) return share;
  const size_t rows = rows_, first = rows * index;
  return {.images = RowsFrom(share.images, rows_of_share, first, rows, images_),
          .labels = RowsFrom(share.labels, rows_of_share, first, rows, labels_),
          .samples = RowsFrom(share.samples, rows_of_share, first, rows, samples_),
          .count = std::clamp(share.count - rows_ * index, 0, rows_),
          .draw = share.draw,
          .targets = RowsFrom(share.targets, rows_of_share, first, rows, targets_),
          .loss_factor = share.loss_factor};
}

}  // namespace dp::trainer
