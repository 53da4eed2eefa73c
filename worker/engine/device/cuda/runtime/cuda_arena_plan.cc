#include "worker/engine/device/cuda/runtime/cuda_arena_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace dp::engine::cuda {
namespace {

int64_t Aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool Meet(const ArenaArray& a, const ArenaArray& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The bytes that an array takes, from `begin` to before `end`.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

// The beginning of the smallest gap between `taken` that holds `bytes`, or the end of all of them.
int64_t PlaceFor(int64_t bytes, std::vector<Range> taken) {
  std::sort(taken.begin(), taken.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  int64_t best = -1;
  int64_t best_size = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (const Range& range : taken) {
    const int64_t gap = range.begin - end;
    if (gap >= bytes && gap < best_size) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, range.end);
  }
  return best >= 0 ? best : end;
}

// Indices of arrays, largest first; equal arrays keep their order.
std::vector<size_t> LargestFirst(absl::Span<const ArenaArray> arrays) {
  std::vector<size_t> order(arrays.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return arrays[a].bytes > arrays[b].bytes; });
  return order;
}

}  // namespace

ArenaPlan PlanArena(absl::Span<const ArenaArray> arrays) {
  ArenaPlan plan;
  plan.offsets.resize(arrays.size());
  const std::vector<size_t> order = LargestFirst(arrays);
  for (size_t placed = 0; placed < order.size(); ++placed) {
    const ArenaArray& array = arrays[order[placed]];
    DP_CHECK(array.bytes >= 0 && array.first <= array.last);
    std::vector<Range> taken;
    for (size_t i = 0; i < placed; ++i) {
      const size_t other = order[i];
      if (!Meet(array, arrays[other])) continue;
      taken.push_back({plan.offsets[other], plan.offsets[other] + Aligned(arrays[other].bytes)});
    }
    const int64_t offset = PlaceFor(Aligned(array.bytes), std::move(taken));
    plan.offsets[order[placed]] = offset;
    plan.bytes = std::max(plan.bytes, offset + Aligned(array.bytes));
  }
  return plan;
}

}  // namespace dp::engine::cuda
