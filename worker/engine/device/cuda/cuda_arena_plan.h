#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace dp::engine::cuda {

// What cudaMalloc aligns to, and more than any vector load or tensor core asks for.
inline constexpr int64_t kArenaAlignment = 256;

// An array that is needed in the steps from `first` to `last`, both included, of a schedule that is
// known before: a kernel's place in the order of a training step, say.
struct ArenaArray {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

// Where each array lies: bytes from the arena's beginning, multiples of kArenaAlignment.
struct ArenaPlan {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // of the arena
};

// Places arrays so that two which are needed in one step never overlap. Largest first, each in the
// smallest gap it fits among those already placed that it meets: "greedy by size" of Pisarchyk and
// Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020. Pure; equal arrays give
// equal plans.
ArenaPlan PlanArena(absl::Span<const ArenaArray> arrays);

}  // namespace dp::engine::cuda
