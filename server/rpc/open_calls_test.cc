#include "server/rpc/open_calls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class OpenCallsTest : public testing::Test {
 protected:
  OpenCalls::Id Begin() { return calls_.Begin(now_); }
  // A call with an answer that nobody has taken yet.
  OpenCalls::Id Answered(size_t bytes) {
    const OpenCalls::Id call = Begin();
    calls_.Answer(call, bytes, now_);
    return call;
  }
  void Pass(absl::Duration time) { now_ += time; }
  std::vector<OpenCalls::Id> Overdue() { return calls_.TakeOverdue(now_); }

  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  OpenCalls calls_{
      {.lasts = absl::Seconds(100), .answer_bytes = 10, .taken_within = absl::Seconds(2)}};
};

TEST_F(OpenCallsTest, ACallThatLastsTooLongMustEnd) {
  const OpenCalls::Id first = Begin();
  Pass(absl::Seconds(60));
  Begin();
  Pass(absl::Seconds(39));
  EXPECT_THAT(Overdue(), IsEmpty());
  Pass(absl::Seconds(1));
  EXPECT_THAT(Overdue(), ElementsAre(first));
  EXPECT_THAT(Overdue(), IsEmpty());
  calls_.Answer(first, 1, now_);  // as it may, before it learns that it has ended
  EXPECT_EQ(calls_.size(), 1u);
}

TEST_F(OpenCallsTest, AnAnswerThatNobodyTakesDoesNotProlongItsCall) {
  Pass(absl::Seconds(1));
  const OpenCalls::Id call = Begin();
  Pass(absl::Seconds(60));
  calls_.Answer(call, 1, now_);
  Pass(absl::Seconds(40));
  EXPECT_THAT(Overdue(), ElementsAre(call));
}

TEST_F(OpenCallsTest, ACallThatHasEndedCountsNoMore) {
  const OpenCalls::Id call = Answered(100);
  calls_.End(call);
  calls_.End(call);
  EXPECT_EQ(calls_.size(), 0u);
  EXPECT_EQ(calls_.answer_bytes(), 0u);
  Pass(absl::Hours(1));
  EXPECT_THAT(Overdue(), IsEmpty());
}

TEST_F(OpenCallsTest, OfTooManyAnswersTheOldestAreGivenUpUntilTheRestIsWithinTheBound) {
  const OpenCalls::Id first = Answered(5), second = Answered(5);
  Answered(5), Answered(4);
  Pass(absl::Seconds(2));
  EXPECT_THAT(Overdue(), ElementsAre(first, second));
}

TEST_F(OpenCallsTest, AnAnswerThatMayBeOnItsWayIsNotGivenUp) {
  Answered(100);
  Pass(absl::Seconds(1));
  EXPECT_THAT(Overdue(), IsEmpty());
}

TEST_F(OpenCallsTest, AnswersWithinTheBoundMayTakeTime) {
  Answered(10);
  Pass(absl::Seconds(99));
  EXPECT_THAT(Overdue(), IsEmpty());
}

TEST_F(OpenCallsTest, ItSaysWhenToLookAgain) {
  EXPECT_EQ(calls_.next_at(), absl::InfiniteFuture());
  Answered(10);
  EXPECT_EQ(calls_.next_at(), now_ + absl::Seconds(100));
  const OpenCalls::Id more = Answered(1);
  EXPECT_EQ(calls_.next_at(), now_ + absl::Seconds(2));
  calls_.End(more);
  EXPECT_EQ(calls_.next_at(), now_ + absl::Seconds(100));
}

}  // namespace
}  // namespace dp::server
