#pragma once

#include "worker/engine/device/cuda/cuda_launch.h"

// How sums over the rows of a matrix are divided. Pure.

namespace dp::engine::cuda {

// A block's threads lie `across` by `down`: each across has `width` columns, each down takes every
// down-th row. Fewer columns leave more rows to a block.
constexpr int ColumnThreads(int64_t columns, int width) {
  int across = 1;
  while (across < kWarpThreads && across * width < columns) across *= 2;
  return across;
}

// The rows as chunks, each summed by blocks of its own. There are as many as fill any card of
// today, each with rows enough to make its blocks worth their start: few chunks are soon added up.
// What one block has done in the time of a launch is one chunk, which needs no second launch.
constexpr Chunks ColumnChunks(int64_t rows, int64_t columns) {
  constexpr int64_t kBlocksWanted = 528;
  constexpr int64_t kRowsOfThreadLeast = 8;
  constexpr int64_t kRowsOfThreadUncut = 16;
  // By the columns of the widest tile, so that the cut does not depend on how they are loaded.
  constexpr int kWidest = 8;
  const int64_t down = kBlockThreads / ColumnThreads(columns, kWidest);
  if (rows <= kRowsOfThreadUncut * down) return {rows, 1};
  const int64_t tiles = DivideUp(columns, int64_t{kWarpThreads} * kWidest);
  return CutRows(rows, kRowsOfThreadLeast * down, DivideUp(kBlocksWanted, tiles));
}

}  // namespace dp::engine::cuda
