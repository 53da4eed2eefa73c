#include "worker/agent/spool_budget.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;

constexpr uint64_t kMega = 1 << 20;

TEST(SpoolBudgetTest, WithinTheBoundNothingIsGivenUpEvenWhatIsStored) {
  EXPECT_THAT(FitSpools({{0, 3 * kMega, 4 * kMega}, {kMega, kMega, 2 * kMega}}, 5 * kMega),
              ElementsAre(0, kMega));
}

TEST(SpoolBudgetTest, WhatIsStoredGoesFirst) {
  EXPECT_THAT(FitSpools({{0, 3 * kMega, 4 * kMega}, {0, 0, 4 * kMega}}, 6 * kMega),
              ElementsAre(3 * kMega, 0));
}

TEST(SpoolBudgetTest, OfAFileThatIsStoredTheTailStays) {
  EXPECT_THAT(FitSpools({{0, 4 * kMega, 4 * kMega}, {0, 0, 4 * kMega}}, 6 * kMega),
              ElementsAre(4 * kMega - kSpoolTailBytes, 0));
}

TEST(SpoolBudgetTest, TheOldestBytesOfWhoKeepsMostGoNext) {
  // To 7 of 8 MiB: the quiet ones keep all, the floods what is left, in equal parts.
  EXPECT_THAT(
      FitSpools({{0, 0, 100 * kMega}, {0, 0, kMega}, {10 * kMega, 0, 30 * kMega}}, 8 * kMega),
      ElementsAre(97 * kMega, 0, 27 * kMega));
}

TEST(SpoolBudgetTest, WhatHasBeenGivenUpStaysSo) {
  EXPECT_THAT(FitSpools({{3 * kMega, kMega, 4 * kMega}, {0, 0, 8 * kMega}}, 8 * kMega),
              ElementsAre(3 * kMega, 2 * kMega));
}

TEST(SpoolBudgetTest, ATailStaysThoughTheBoundIsTooSmallForAll) {
  EXPECT_THAT(FitSpools({{0, 0, kMega}, {0, 0, 10}}, 1), ElementsAre(kMega - kSpoolTailBytes, 0));
}

TEST(SpoolBudgetTest, ADiskWithRoomChangesNothing) {
  EXPECT_EQ(SpoolBytesMax(8 * kMega, 5 * kMega, DiskSpace()), 8 * kMega);
  EXPECT_EQ(SpoolBytesMax(8 * kMega, 5 * kMega, {160 * kMega, 10 * kMega}), 8 * kMega);
}

TEST(SpoolBudgetTest, WhatTheDiskLacksOfItsReserveIsGivenUp) {
  EXPECT_EQ(SpoolBytesMax(8 * kMega, 5 * kMega, {160 * kMega, 7 * kMega}), 2 * kMega);
  EXPECT_EQ(SpoolBytesMax(8 * kMega, 50 * kMega, {160 * kMega, 9 * kMega}), 8 * kMega);
  EXPECT_EQ(SpoolBytesMax(8 * kMega, 5 * kMega, {160 * kMega, 0}), 0u);
}

TEST(SpoolBudgetTest, TheReserveIsAShareOfTheDiskUpToABound) {
  EXPECT_EQ(SpoolReserve({160 * kMega, 0}), 10 * kMega);
  EXPECT_EQ(SpoolReserve(DiskSpace()), 256 * kMega);
}

TEST(SpoolBudgetTest, WhatIsKeptIsWhatWasNotGivenUp) {
  EXPECT_EQ(KeptBy({{kMega, 3 * kMega, 4 * kMega}, {0, 0, 10}}), 3 * kMega + 10);
}

}  // namespace
}  // namespace dp::worker
