#include "worker/engine/ddp/bucket_schedule.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/ddp/testing/layout_of_sizes.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Buckets {p0, p1}, {p2}, {p3}.
BucketSchedule Schedule() {
  return BucketSchedule(
      PlanBuckets(LayoutOfSizes({16, 16, 32, 32}), {.first_bytes = 128, .cap_bytes = 128}));
}

TEST(BucketScheduleTest, ABucketLaunchesWhenItsLastGradientIsReady) {
  BucketSchedule schedule = Schedule();
  EXPECT_THAT(schedule.Ready(0), IsEmpty());
  EXPECT_THAT(schedule.Ready(1), ElementsAre(0));
  EXPECT_THAT(schedule.Ready(2), ElementsAre(1));
}

TEST(BucketScheduleTest, ABucketReadyEarlyWaitsForThoseBeforeIt) {
  BucketSchedule schedule = Schedule();
  EXPECT_THAT(schedule.Ready(3), IsEmpty());
  EXPECT_THAT(schedule.Ready(2), IsEmpty());
  EXPECT_THAT(schedule.Ready(1), IsEmpty());
  EXPECT_THAT(schedule.Ready(0), ElementsAre(0, 1, 2));
}

TEST(BucketScheduleTest, UnreadyNamesTheParametersWithoutGradient) {
  BucketSchedule schedule = Schedule();
  schedule.Ready(2);
  EXPECT_THAT(schedule.Unready(), ElementsAre(0, 1, 3));
}

TEST(BucketScheduleTest, BeginForgetsTheLastBackward) {
  BucketSchedule schedule = Schedule();
  for (int p : {0, 1, 2, 3}) schedule.Ready(p);
  EXPECT_THAT(schedule.Unready(), IsEmpty());
  schedule.Begin();
  EXPECT_THAT(schedule.Ready(0), IsEmpty());
  EXPECT_THAT(schedule.Ready(1), ElementsAre(0));
}

}  // namespace
}  // namespace dp::engine
