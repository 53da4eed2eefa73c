#include "worker/engine/device/batch_part.h"

#include <algorithm>

namespace dp::engine {
namespace {

// The rows from `first` on of an array of `rows_of_whole` rows, padded to `rows` in `memory` if
// they are fewer.
template <typename T>
absl::Span<const T> RowsFrom(absl::Span<const T> values, size_t rows_of_whole, size_t first,
                             size_t rows, std::vector<T>& memory) {
  const size_t row = values.size() / rows_of_whole;
  const absl::Span<const T> part = values.subspan(std::min(first, rows_of_whole) * row, rows * row);
  if (part.size() == rows * row) return part;
  memory.assign(rows * row, T());
  std::copy(part.begin(), part.end(), memory.begin());
  return memory;
}

}  // namespace

Batch BatchPart::Of(const Batch& whole, int first, int count, int rows) {
  const size_t rows_of_whole = whole.samples.size();
  const auto begin = static_cast<size_t>(first), size = static_cast<size_t>(rows);
  if (begin == 0 && rows_of_whole == size && count == whole.count) return whole;
  return {.images = RowsFrom(whole.images, rows_of_whole, begin, size, images_),
          .labels = RowsFrom(whole.labels, rows_of_whole, begin, size, labels_),
          .samples = RowsFrom(whole.samples, rows_of_whole, begin, size, samples_),
          .count = count,
          .draw = whole.draw,
          .targets = RowsFrom(whole.targets, rows_of_whole, begin, size, targets_),
          .loss_factor = whole.loss_factor};
}

}  // namespace dp::engine
