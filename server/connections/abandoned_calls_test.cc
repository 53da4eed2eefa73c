#include "server/connections/abandoned_calls.h"

#include "gtest/gtest.h"

namespace dp::server {
namespace {

class AbandonedCallsTest : public testing::Test {
 protected:
  AbandonedCalls calls_{{.of_connection = 100, .of_stranger = 5, .rejected = 10}};
  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(AbandonedCallsTest, ALookIsDueAfterManyRejectedCalls) {
  EXPECT_FALSE(calls_.IsDue(9, now_));
  EXPECT_TRUE(calls_.IsDue(10, now_));
}

TEST_F(AbandonedCallsTest, TheNextLookWaitsForAsManyAgain) {
  calls_.Looked(10, now_, now_);
  EXPECT_FALSE(calls_.IsDue(19, now_ + absl::Hours(1)));
  EXPECT_TRUE(calls_.IsDue(20, now_ + absl::Hours(1)));
}

TEST_F(AbandonedCallsTest, QuickLooksAreDueTenTimesASecond) {
  calls_.Looked(10, now_, now_ + absl::Milliseconds(1));
  EXPECT_FALSE(calls_.IsDue(1'000, now_ + absl::Milliseconds(99)));
  EXPECT_TRUE(calls_.IsDue(1'000, now_ + absl::Milliseconds(100)));
}

TEST_F(AbandonedCallsTest, SlowLooksTakeATenthOfTheTime) {
  calls_.Looked(10, now_, now_ + absl::Milliseconds(200));
  EXPECT_FALSE(calls_.IsDue(1'000, now_ + absl::Milliseconds(1'999)));
  EXPECT_TRUE(calls_.IsDue(1'000, now_ + absl::Milliseconds(2'000)));
}

TEST_F(AbandonedCallsTest, CallsWhoseMessagesHaveComeAreNotAbandoned) {
  EXPECT_FALSE(calls_.AreTooMany({.begun = 1'000'100, .messages = 1'000'000}, false));
  EXPECT_TRUE(calls_.AreTooMany({.begun = 1'000'101, .messages = 1'000'000}, false));
}

TEST_F(AbandonedCallsTest, AStrangerMayAbandonFewer) {
  EXPECT_FALSE(calls_.AreTooMany({.begun = 6, .messages = 1}, true));
  EXPECT_TRUE(calls_.AreTooMany({.begun = 7, .messages = 1}, true));
}

TEST_F(AbandonedCallsTest, AStreamOfManyMessagesIsOneCall) {
  EXPECT_FALSE(calls_.AreTooMany({.begun = 1, .messages = 1'000'000}, false));
}

}  // namespace
}  // namespace dp::server
