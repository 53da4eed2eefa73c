#pragma once

#include <cstdint>

// Which rows of logits one block does in one launch: a thread does a row, and the block then adds
// them up. Others take a launch for the rows and one for their sums. Pure.

namespace dp::engine::cuda {

inline constexpr int kOneBlockRowsMax = 1024;
inline constexpr int64_t kNarrowClassesMax = 32;

// Of `stride` elements each.
constexpr bool IsNarrow(int64_t stride, int64_t rows) {
  return stride <= kNarrowClassesMax && rows <= kOneBlockRowsMax;
}

}  // namespace dp::engine::cuda
