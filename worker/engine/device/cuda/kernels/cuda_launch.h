#pragma once

#include <cstdint>

#include "base/model/host_device.h"

// How work is divided into blocks. Pure: the division follows from shapes alone, which keeps sums
// in one order on every card.

namespace dp::engine::cuda {

inline constexpr int kBlockThreads = 256;
inline constexpr int kWarpThreads = 32;

DP_HOST_DEVICE constexpr int64_t DivideUp(int64_t size, int64_t by) { return (size + by - 1) / by; }

// How many blocks of `per_block` items cover `items`.
constexpr unsigned BlocksFor(int64_t items, int64_t per_block) {
  return static_cast<unsigned>(DivideUp(items, per_block));
}

// Rows cut into chunks; each chunk is summed by itself.
struct Chunks {
  int64_t rows_per_chunk = 0;
  int64_t count = 0;
};

// At most `most` chunks of at least `rows_least` rows. The last may be shorter, none is empty.
constexpr Chunks CutRows(int64_t rows, int64_t rows_least, int64_t most) {
  int64_t per_chunk = DivideUp(rows, most);
  if (per_chunk < rows_least) per_chunk = rows_least;
  return {per_chunk, DivideUp(rows, per_chunk)};
}

}  // namespace dp::engine::cuda
