#include "server/connections/unread_answers.h"

#include "gtest/gtest.h"

namespace dp::server {
namespace {

constexpr int kConnection = 7;
constexpr uint64_t kMany = UnreadAnswers::kUnreadBytes + 1;
constexpr uint64_t kMuch = UnreadAnswers::kSentBytes;

class UnreadAnswersTest : public testing::Test {
 protected:
  bool MustEnd(uint64_t received, uint64_t taken, uint64_t unread) {
    const SocketTraffic traffic{.received = received, .taken = taken, .unread = unread};
    return answers_.Look(kConnection, traffic, now_);
  }
  UnreadAnswers answers_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(UnreadAnswersTest, WhoeverSendsOnAndReadsNothingMustEnd) {
  EXPECT_FALSE(MustEnd(100 * kMuch, 10, kMany));  // sent before the doubt
  EXPECT_FALSE(MustEnd(101 * kMuch, 10, kMany));
  EXPECT_TRUE(MustEnd(101 * kMuch + 1, 10, kMany));
}

TEST_F(UnreadAnswersTest, WhoeverReadsAMomentIsInDoubtAnew) {
  EXPECT_FALSE(MustEnd(0, 0, kMany));
  EXPECT_FALSE(MustEnd(2 * kMuch, 10, UnreadAnswers::kUnreadBytes));
  EXPECT_FALSE(MustEnd(3 * kMuch, 10, kMany));
  EXPECT_FALSE(MustEnd(4 * kMuch, 10, kMany));
  EXPECT_TRUE(MustEnd(4 * kMuch + 1, 10, kMany));
}

// Reading as much as one sends is not enough: each answer is about as long as its call.
TEST_F(UnreadAnswersTest, WhoeverReadsSlowerThanItSendsMustEnd) {
  EXPECT_FALSE(MustEnd(0, 0, kMany));
  EXPECT_TRUE(MustEnd(2 * kMuch, kMuch, kMany));
}

TEST_F(UnreadAnswersTest, TheReaderOfALongLogOnASlowNetworkGoesOn) {
  for (uint64_t windows = 0; windows < 1'000'000; ++windows) {
    ASSERT_FALSE(MustEnd(35 * windows, (windows << 15), kMany));
  }
}

TEST_F(UnreadAnswersTest, WhoeverTakesNothingForLongMustEnd) {
  EXPECT_FALSE(MustEnd(0, 0, kMany));
  now_ += UnreadAnswers::kTakesNothing - absl::Seconds(1);
  EXPECT_FALSE(MustEnd(0, 1, kMany));
  now_ += UnreadAnswers::kTakesNothing - absl::Seconds(1);
  EXPECT_FALSE(MustEnd(0, 1, kMany));
  now_ += absl::Seconds(1);
  EXPECT_TRUE(MustEnd(0, 1, kMany));
}

TEST_F(UnreadAnswersTest, AnotherConnectionOfTheSameNumberIsNotInDoubt) {
  EXPECT_FALSE(MustEnd(0, 0, kMany));
  answers_.Forget(kConnection);
  EXPECT_FALSE(MustEnd(2 * kMuch, 0, kMany));
}

}  // namespace
}  // namespace dp::server
