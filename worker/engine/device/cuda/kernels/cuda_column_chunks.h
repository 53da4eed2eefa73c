#pragma once

#include "worker/engine/device/cuda/kernels/cuda_launch.h"

// How sums over the rows of a matrix are divided. Pure.

namespace dp::engine::cuda {

// A block's threads form a grid of `across` x `down`. A thread sums `width` columns of every
// `down`-th row. With fewer columns a block takes more rows at once.
constexpr int ColumnThreads(int64_t columns, int width) {
  int across = 1;
  while (across < kWarpThreads && across * width < columns) across *= 2;
  return across;
}

// How many blocks sum the columns of a long matrix, on every card. A count by the card's
// multiprocessors would give other bits on another card.
inline constexpr int64_t kColumnBlocks = 528;
// The same for a ReLU's gradient, whose blocks use more registers. A multiprocessor holds three of
// them, and an H100 has 132. More blocks would run when these are done.
inline constexpr int64_t kReluColumnBlocks = 396;

// Cuts the rows into chunks, each summed by blocks of its own. The chunks fill any card of today,
// yet are few enough to be added up soon. Each has enough rows to make its blocks worth their
// start. Rows that one block sums in the time of a launch stay one chunk, which needs no second
// launch.
constexpr Chunks ColumnChunks(int64_t rows, int64_t columns,
                              int64_t blocks_wanted = kColumnBlocks) {
  constexpr int64_t kRowsOfThreadLeast = 8;
  constexpr int64_t kRowsOfThreadUncut = 16;
  // Counts columns by the widest tile, so that the cut does not depend on how columns are loaded.
  constexpr int kWidest = 8;
  const int64_t down = kBlockThreads / ColumnThreads(columns, kWidest);
  if (rows <= kRowsOfThreadUncut * down) return {rows, 1};
  const int64_t tiles = DivideUp(columns, int64_t{kWarpThreads} * kWidest);
  return CutRows(rows, kRowsOfThreadLeast * down, DivideUp(blocks_wanted, tiles));
}

}  // namespace dp::engine::cuda
