#include "server/connections/unread_answers.h"

#include "gtest/gtest.h"

namespace dp::server {
namespace {

constexpr int kConnection = 7;
constexpr uint64_t kMuch = UnreadAnswers::kSentBytes;

class UnreadAnswersTest : public testing::Test {
 protected:
  bool MustEnd(uint64_t received, uint64_t taken) {
    return answers_.Full(kConnection, {.received = received, .taken = taken}, now_);
  }
  UnreadAnswers answers_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(UnreadAnswersTest, WhoeverSendsOnAndReadsNothingMustEnd) {
  EXPECT_FALSE(MustEnd(100 * kMuch, 10));  // sent before
  EXPECT_FALSE(MustEnd(101 * kMuch, 10));
  EXPECT_TRUE(MustEnd(101 * kMuch + 1, 10));
}

TEST_F(UnreadAnswersTest, WhoeverReadsEnoughForAMomentBeginsAnew) {
  EXPECT_FALSE(MustEnd(0, 0));
  answers_.Forget(kConnection);
  EXPECT_FALSE(MustEnd(3 * kMuch, 10));
  EXPECT_FALSE(MustEnd(4 * kMuch, 10));
  EXPECT_TRUE(MustEnd(4 * kMuch + 1, 10));
}

// Each answer is about as long as its call.
TEST_F(UnreadAnswersTest, ReadingAsMuchAsOneSendsIsNotEnough) {
  EXPECT_FALSE(MustEnd(0, 0));
  EXPECT_TRUE(MustEnd(2 * kMuch, 2 * kMuch));
}

TEST_F(UnreadAnswersTest, WhoeverTakesMuchMaySendAPartOfIt) {
  EXPECT_FALSE(MustEnd(0, 0));
  EXPECT_FALSE(MustEnd(2 * kMuch, 16 * kMuch));
  EXPECT_TRUE(MustEnd(2 * kMuch + 1, 16 * kMuch));
}

TEST_F(UnreadAnswersTest, TheReaderOfALongLogOnASlowNetworkGoesOn) {
  for (uint64_t windows = 0; windows < 1'000'000; ++windows) {
    ASSERT_FALSE(MustEnd(35 * windows, windows << 15));
  }
}

TEST_F(UnreadAnswersTest, WhoeverTakesNothingForLongMustEnd) {
  EXPECT_FALSE(MustEnd(0, 0));
  now_ += UnreadAnswers::kTakesNothing - absl::Seconds(1);
  EXPECT_FALSE(MustEnd(0, 1));
  now_ += UnreadAnswers::kTakesNothing - absl::Seconds(1);
  EXPECT_FALSE(MustEnd(0, 1));
  now_ += absl::Seconds(1);
  EXPECT_TRUE(MustEnd(0, 1));
}

}  // namespace
}  // namespace dp::server
