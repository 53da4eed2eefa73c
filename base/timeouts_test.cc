#include "base/timeouts.h"

#include "base/limits.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

TEST(TimeoutsTest, WhoKnowsBestLosesPatienceFirst) {
  const absl::Duration lease = absl::Seconds(5);
  for (absl::Duration detect = kLeaseMin; detect <= kDetectWithinMax; detect *= 2) {
    const Timeouts timeouts = TimeoutsFor(detect, lease);
    EXPECT_LT(timeouts.isolation, timeouts.lease);
    EXPECT_LE(timeouts.lease, timeouts.collective);
    EXPECT_LT(timeouts.collective, timeouts.hang);
    EXPECT_LE(timeouts.hang, timeouts.join);
    EXPECT_LT(timeouts.join, timeouts.store);
    EXPECT_LT(timeouts.store, timeouts.rendezvous);
  }
}

TEST(TimeoutsTest, TheKnobIsWhatACollectiveMayTake) {
  const Timeouts timeouts = TimeoutsFor(absl::Seconds(30), absl::Seconds(5));
  EXPECT_EQ(timeouts.collective, absl::Seconds(30));
  EXPECT_EQ(timeouts.hang, absl::Seconds(32));
  EXPECT_EQ(timeouts.isolation, absl::Seconds(4));
  EXPECT_EQ(timeouts.join, absl::Seconds(32));
  EXPECT_EQ(timeouts.store, absl::Minutes(5));
  EXPECT_EQ(timeouts.rendezvous, absl::Minutes(10));
}

TEST(TimeoutsTest, ADeadHostIsToBeNoticedWithinTheKnob) {
  const absl::Duration most = absl::Seconds(5);
  EXPECT_EQ(TimeoutsFor(absl::Seconds(4), most).lease, absl::Seconds(3.2));
  EXPECT_EQ(TimeoutsFor(absl::Seconds(4), most).isolation, absl::Seconds(2.56));
  EXPECT_EQ(LeaseWithin(absl::Seconds(7), most), most);
  EXPECT_EQ(LeaseWithin(absl::InfiniteDuration(), most), most);
}

TEST(TimeoutsTest, NoJobMakesALeaseTooShortOrLonger) {
  EXPECT_EQ(LeaseWithin(absl::Seconds(1), absl::Seconds(5)), kLeaseMin);
  EXPECT_EQ(LeaseWithin(absl::Seconds(1), absl::Seconds(0.5)), absl::Seconds(0.5));
}

TEST(TimeoutsTest, AProgramHasTimeToStartHoweverShortTheKnob) {
  EXPECT_EQ(TimeoutsFor(absl::Seconds(1), absl::Seconds(5)).join, absl::Seconds(10));
}

}  // namespace
}  // namespace dp
