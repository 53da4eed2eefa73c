#include "worker/agent/spool/spool_budget.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;

constexpr uint64_t kMega = 1 << 20;

SpoolBounds Both(uint64_t bytes_max) { return {bytes_max, bytes_max}; }

TEST(SpoolBudgetTest, WithinTheBoundNothingIsGivenUpEvenWhatIsStored) {
  EXPECT_THAT(FitSpools({{0, 3 * kMega, 4 * kMega}, {kMega, kMega, 2 * kMega}}, Both(5 * kMega)),
              ElementsAre(0, kMega));
}

TEST(SpoolBudgetTest, WhatIsStoredGoesFirst) {
  EXPECT_THAT(FitSpools({{0, 3 * kMega, 4 * kMega}, {0, 0, 4 * kMega}}, Both(6 * kMega)),
              ElementsAre(3 * kMega, 0));
}

TEST(SpoolBudgetTest, OfAFileThatIsStoredTheTailStays) {
  EXPECT_THAT(FitSpools({{0, 4 * kMega, 4 * kMega}, {0, 0, 4 * kMega}}, Both(6 * kMega)),
              ElementsAre(4 * kMega - kSpoolTailBytes, 0));
}

TEST(SpoolBudgetTest, TheOldestBytesOfWhoKeepsMostGoNext) {
  // Down to 7 of 8 MiB: the quiet file keeps all, and the floods share the rest equally.
  EXPECT_THAT(
      FitSpools({{0, 0, 100 * kMega}, {0, 0, kMega}, {10 * kMega, 0, 30 * kMega}}, Both(8 * kMega)),
      ElementsAre(97 * kMega, 0, 27 * kMega));
}

TEST(SpoolBudgetTest, WhatHasBeenGivenUpStaysSo) {
  EXPECT_THAT(FitSpools({{3 * kMega, kMega, 4 * kMega}, {0, 0, 8 * kMega}}, Both(8 * kMega)),
              ElementsAre(3 * kMega, 2 * kMega));
}

TEST(SpoolBudgetTest, ATailStaysThoughTheBoundIsTooSmallForAll) {
  EXPECT_THAT(FitSpools({{0, 0, kMega}, {0, 0, 10}}, Both(1)),
              ElementsAre(kMega - kSpoolTailBytes, 0));
}

TEST(SpoolBudgetTest, UnsentBytesStayWhereOnlyStoredOnesMustGo) {
  EXPECT_THAT(FitSpools({{0, 3 * kMega, 4 * kMega}, {0, 0, 4 * kMega}}, {0, 6 * kMega}),
              ElementsAre(3 * kMega, 0));
}

TEST(SpoolBudgetTest, ADiskWithRoomChangesNothing) {
  EXPECT_EQ(BoundsOf(8 * kMega, 5 * kMega, DiskSpace()), Both(8 * kMega));
  EXPECT_EQ(BoundsOf(8 * kMega, 5 * kMega, {160 * kMega, 10 * kMega}), Both(8 * kMega));
}

TEST(SpoolBudgetTest, WhatTheDiskLacksOfItsReserveIsGivenUp) {
  EXPECT_EQ(BoundsOf(80 * kMega, 50 * kMega, {160 * kMega, 7 * kMega}), Both(47 * kMega));
  EXPECT_EQ(BoundsOf(8 * kMega, 50 * kMega, {160 * kMega, 9 * kMega}), Both(8 * kMega));
}

TEST(SpoolBudgetTest, OnADiskThatOthersHaveFilledOnlyStoredBytesGo) {
  const SpoolBounds bounds = BoundsOf(80 * kMega, 5 * kMega, {160 * kMega, 0});
  EXPECT_EQ(bounds, (SpoolBounds{0, 10 * kMega}));
  EXPECT_THAT(FitSpools({{0, 2 * kMega, 5 * kMega}}, bounds), ElementsAre(2 * kMega));
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
