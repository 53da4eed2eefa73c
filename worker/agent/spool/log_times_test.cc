#include "worker/agent/spool/log_times.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

absl::Time At(int second) { return absl::FromUnixSeconds(second); }
LogTime Found(uint64_t offset, int second) { return {offset, At(second)}; }

TEST(LogTimesTest, BytesHaveTheTimeOfTheFindThatBroughtThem) {
  LogTimes times;
  times.Add(0, At(1));
  times.Add(10, At(2));
  times.Add(20, At(3));
  EXPECT_THAT(times.Of(0, 30), ElementsAre(Found(0, 1), Found(10, 2), Found(20, 3)));
  EXPECT_THAT(times.Of(5, 10), ElementsAre(Found(5, 1)));
  EXPECT_THAT(times.Of(10, 11), ElementsAre(Found(10, 2)));
}

TEST(LogTimesTest, WhatNobodyAsksForIsForgottenButNotWhatStillHolds) {
  LogTimes times;
  times.Add(0, At(1));
  times.Add(10, At(2));
  times.ForgetBefore(15);
  EXPECT_THAT(times.Of(15, 16), ElementsAre(Found(15, 2)));
  EXPECT_THAT(times.Of(0, 5), IsEmpty());
}

TEST(LogTimesTest, PastTheBoundTimesGrowCoarser) {
  LogTimes times(/*max=*/4);
  for (int i = 0; i < 5; ++i) times.Add(10 * i, At(i));
  EXPECT_THAT(times.Of(0, 50), ElementsAre(Found(0, 0), Found(20, 2), Found(40, 4)));
}

TEST(LogTimesTest, BytesBeforeTheFirstFindHaveNoTime) {
  LogTimes times;
  EXPECT_THAT(times.Of(0, 5), IsEmpty());
  times.Add(10, At(1));
  EXPECT_THAT(times.Of(0, 20), ElementsAre(Found(10, 1)));
}

}  // namespace
}  // namespace dp::worker
