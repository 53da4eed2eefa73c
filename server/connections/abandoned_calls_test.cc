#include "server/connections/abandoned_calls.h"

#include "gtest/gtest.h"

namespace dp::server {
namespace {

class AbandonedCallsTest : public testing::Test {
 protected:
  void Look(absl::Duration takes = absl::ZeroDuration()) {
    calls_.BeginLook(now_);
    calls_.EndLook(10, now_ + takes);
  }
  bool TooMany(uint64_t begun, uint64_t messages, bool stranger = false) {
    return calls_.AreTooMany({.end = "a", .begun = begun, .messages = messages}, stranger);
  }

  AbandonedCalls calls_{{.of_connection = 100, .of_stranger = 5, .rejected = 10}};
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(AbandonedCallsTest, ALookIsDueAfterManyRejectedCalls) {
  EXPECT_FALSE(calls_.IsDue(9, now_));
  EXPECT_TRUE(calls_.IsDue(10, now_));
}

TEST_F(AbandonedCallsTest, TheNextLookWaitsForAsManyAgain) {
  Look();
  EXPECT_FALSE(calls_.IsDue(19, now_ + absl::Hours(1)));
  EXPECT_TRUE(calls_.IsDue(20, now_ + absl::Hours(1)));
}

TEST_F(AbandonedCallsTest, QuickLooksAreDueTenTimesASecond) {
  Look(absl::Milliseconds(1));
  EXPECT_FALSE(calls_.IsDue(1'000, now_ + absl::Milliseconds(99)));
  EXPECT_TRUE(calls_.IsDue(1'000, now_ + absl::Milliseconds(100)));
}

TEST_F(AbandonedCallsTest, SlowLooksTakeATenthOfTheTime) {
  Look(absl::Milliseconds(200));
  EXPECT_FALSE(calls_.IsDue(1'000, now_ + absl::Milliseconds(1'999)));
  EXPECT_TRUE(calls_.IsDue(1'000, now_ + absl::Milliseconds(2'000)));
}

TEST_F(AbandonedCallsTest, CallsWhoseMessagesHaveComeAreNotAbandoned) {
  Look();
  calls_.BeginLook(now_);
  EXPECT_FALSE(TooMany(1'000'100, 1'000'000));
  EXPECT_TRUE(TooMany(1'000'101, 1'000'000));
}

TEST_F(AbandonedCallsTest, AStrangerMayAbandonFewer) {
  EXPECT_FALSE(TooMany(6, 1, /*stranger=*/true));
  EXPECT_TRUE(TooMany(7, 1, /*stranger=*/true));
}

TEST_F(AbandonedCallsTest, AStreamOfManyMessagesIsOneCall) { EXPECT_FALSE(TooMany(1, 1'000'000)); }

TEST_F(AbandonedCallsTest, CallsBeforeTheFirstLookOfASeriesDoNotCount) {
  calls_.BeginLook(now_);
  EXPECT_FALSE(TooMany(1'000, 0));
  calls_.EndLook(10, now_);
  calls_.BeginLook(now_ + absl::Seconds(59));
  EXPECT_FALSE(TooMany(1'100, 0));
  EXPECT_TRUE(TooMany(1'101, 0));
  calls_.EndLook(20, now_ + absl::Seconds(59));
  calls_.BeginLook(now_ + absl::Seconds(119));
  EXPECT_FALSE(TooMany(1'200, 0));
}

}  // namespace
}  // namespace dp::server
