#include "worker/engine/device/cuda/runtime/cuda_arena_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace dp::engine::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

bool Overlap(const ArenaPlan& plan, absl::Span<const ArenaArray> arrays, size_t a, size_t b) {
  return plan.offsets[a] < plan.offsets[b] + arrays[b].bytes &&
         plan.offsets[b] < plan.offsets[a] + arrays[a].bytes;
}

bool Meet(const ArenaArray& a, const ArenaArray& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(ArenaPlanTest, NothingTakesNothing) {
  EXPECT_EQ(PlanArena(absl::Span<const ArenaArray>()).bytes, 0);
}

TEST(ArenaPlanTest, ArraysOfOneStepLieBesideEachOther) {
  const ArenaPlan plan = PlanArena({{.bytes = 100}, {.bytes = 300}, {.bytes = 256}});
  EXPECT_THAT(plan.offsets, ElementsAre(768, 0, 512));
  EXPECT_EQ(plan.bytes, 1024);
}

TEST(ArenaPlanTest, ArraysThatNeverMeetShareMemory) {
  const ArenaPlan plan =
      PlanArena({{.bytes = 512, .first = 0, .last = 1}, {.bytes = 256, .first = 2, .last = 3}});
  EXPECT_THAT(plan.offsets, Each(0));
  EXPECT_EQ(plan.bytes, 512);
}

TEST(ArenaPlanTest, AnArrayThatEndsWhereAnotherBeginsMeetsIt) {
  const ArenaPlan plan =
      PlanArena({{.bytes = 512, .first = 0, .last = 2}, {.bytes = 256, .first = 2, .last = 3}});
  EXPECT_THAT(plan.offsets, ElementsAre(0, 512));
}

TEST(ArenaPlanTest, ALaterArrayTakesTheSmallestGapThatHoldsIt) {
  // The second and fourth array are gone when the last one comes: gaps of 1024 and of 512.
  const ArenaPlan plan = PlanArena({{.bytes = 4096, .first = 0, .last = 9},
                                    {.bytes = 1024, .first = 0, .last = 1},
                                    {.bytes = 1024, .first = 0, .last = 9},
                                    {.bytes = 512, .first = 0, .last = 1},
                                    {.bytes = 512, .first = 0, .last = 9},
                                    {.bytes = 500, .first = 2, .last = 9}});
  EXPECT_EQ(plan.offsets[5], plan.offsets[3]);
  EXPECT_EQ(plan.bytes, 4096 + 1024 + 1024 + 512 + 512);
}

TEST(ArenaPlanTest, RandomArraysNeverOverlapWhileBothAreNeeded) {
  constexpr uint64_t kSeed = 42;
  uint64_t state = kSeed;
  std::vector<ArenaArray> arrays(200);
  for (ArenaArray& array : arrays) {
    array.bytes = static_cast<int64_t>(NextRandom(state) % 10000);
    array.first = static_cast<int>(NextRandom(state) % 100);
    array.last = array.first + static_cast<int>(NextRandom(state) % 20);
  }
  const ArenaPlan plan = PlanArena(arrays);
  for (size_t a = 0; a < arrays.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % kArenaAlignment, 0);
    EXPECT_LE(plan.offsets[a] + arrays[a].bytes, plan.bytes);
    for (size_t b = 0; b < a; ++b) {
      EXPECT_FALSE(Meet(arrays[a], arrays[b]) && Overlap(plan, arrays, a, b))
          << "seed " << kSeed << ": arrays " << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace dp::engine::cuda
