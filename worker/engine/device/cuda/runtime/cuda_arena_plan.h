#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace dp::engine::cuda {

// cudaMalloc's alignment, and more than any vector load or tensor core needs.
inline constexpr int64_t kArenaAlignment = 256;

// An array that is needed from step `first` to step `last`, both included. The schedule is known
// beforehand: a step may be a kernel's place in the order of a training step.
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

// Places arrays so that two arrays needed in one step never overlap. Goes from the largest array to
// the smallest. Each takes the smallest sufficient gap between placed arrays that are needed at the
// same time. This is "greedy by size" of Pisarchyk and Lee, "Efficient Memory Management for Deep
// Neural Net Inference", 2020. Pure; equal arrays give equal plans.
ArenaPlan PlanArena(absl::Span<const ArenaArray> arrays);

}  // namespace dp::engine::cuda
