#pragma once

#include <cstdint>

// Which logits one block does in one launch: each thread does a row, then the block adds the rows'
// results. Other logits take one launch for the rows and one for their sums. Pure.

namespace dp::engine::cuda {

inline constexpr int kOneBlockRowsMax = 1024;
inline constexpr int64_t kNarrowClassesMax = 32;

// `stride` is the number of elements from a row to the next.
constexpr bool IsNarrow(int64_t stride, int64_t rows) {
  return stride <= kNarrowClassesMax && rows <= kOneBlockRowsMax;
}

}  // namespace dp::engine::cuda
