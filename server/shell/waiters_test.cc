#include "server/shell/waiters.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using core::Topic;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Wake = Waiters::Wake;

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
Topic Job(uint64_t id) { return {.kind = Topic::Kind::kJob, .id = id}; }
Topic Key(const std::string& key) { return {.kind = Topic::Kind::kStoreKey, .id = 1, .key = key}; }

class WaitersTest : public ::testing::Test {
 protected:
  // Parks a call which is answered by a change once `satisfied_`, and by any other wake.
  void Park(Waiters::Ticket ticket, std::vector<Topic> topics, absl::Time deadline = At(60)) {
    waiters_.Park({ticket, std::move(topics), deadline, [this, ticket](Wake wake) {
                     ++asked_;
                     if (wake == Wake::kChanged && !satisfied_) return false;
                     answered_.emplace_back(ticket, wake);
                     return true;
                   }});
  }

  Waiters waiters_{/*capacity=*/4};
  bool satisfied_ = false;
  int asked_ = 0;
  std::vector<std::pair<Waiters::Ticket, Wake>> answered_;
};

TEST_F(WaitersTest, ACallThatCanBeAnsweredIsNotParked) {
  satisfied_ = true;
  Park(1, {Job(1)});
  EXPECT_EQ(waiters_.size(), 0u);
  EXPECT_THAT(answered_, ElementsAre(std::pair(1, Wake::kChanged)));
}

TEST_F(WaitersTest, AChangeOfItsTopicAsksAgain) {
  Park(1, {Job(1)});
  satisfied_ = true;
  waiters_.WakeChanged({Job(2)});
  EXPECT_THAT(answered_, IsEmpty());
  waiters_.WakeChanged({Job(1)});
  EXPECT_THAT(answered_, ElementsAre(std::pair(1, Wake::kChanged)));
}

TEST_F(WaitersTest, ACallStaysParkedUntilItsQuestionIsAnswered) {
  Park(1, {Key("a"), Key("b")});
  waiters_.WakeChanged({Key("a")});
  EXPECT_EQ(waiters_.size(), 1u);
  satisfied_ = true;
  waiters_.WakeChanged({Key("b")});
  EXPECT_EQ(waiters_.size(), 0u);
}

TEST_F(WaitersTest, ManyChangesAtOnceAskOnce) {
  Park(1, {Key("a"), Key("b")});
  asked_ = 0;
  waiters_.WakeChanged({Key("a"), Key("b")});
  EXPECT_EQ(asked_, 1);
}

TEST_F(WaitersTest, TheDeadlineAnswersAndNothingBeforeIt) {
  Park(1, {Job(1)}, At(10));
  Park(2, {Job(1)}, At(5));
  EXPECT_EQ(waiters_.next_deadline(), At(5));
  waiters_.Expire(At(9));
  EXPECT_THAT(answered_, ElementsAre(std::pair(2, Wake::kDeadline)));
  waiters_.Expire(At(10));
  EXPECT_THAT(answered_, ElementsAre(std::pair(2, Wake::kDeadline), std::pair(1, Wake::kDeadline)));
  EXPECT_EQ(waiters_.next_deadline(), absl::InfiniteFuture());
}

TEST_F(WaitersTest, ACancelledCallIsEndedOnceAndForgotten) {
  Park(1, {Job(1)});
  waiters_.Cancel(1);
  waiters_.Cancel(1);
  waiters_.WakeChanged({Job(1)});
  EXPECT_THAT(answered_, ElementsAre(std::pair(1, Wake::kCancelled)));
}

TEST_F(WaitersTest, ACallBeyondTheLimitIsRefused) {
  for (int ticket = 1; ticket <= 4; ++ticket) Park(ticket, {Job(1)});
  Park(5, {Job(1)});
  EXPECT_EQ(waiters_.size(), 4u);
  EXPECT_THAT(answered_, ElementsAre(std::pair(5, Wake::kRefused)));
}

TEST_F(WaitersTest, StoppingAnswersEveryone) {
  Park(1, {Job(1)});
  Park(2, {Job(2)});
  waiters_.Stop();
  EXPECT_THAT(answered_, ElementsAre(std::pair(1, Wake::kStopping), std::pair(2, Wake::kStopping)));
  EXPECT_EQ(waiters_.size(), 0u);
}

TEST_F(WaitersTest, ATopicNamedTwiceIsOneTopic) {
  Park(1, {Key("a"), Key("a")});
  satisfied_ = true;
  waiters_.WakeChanged({Key("a")});
  EXPECT_EQ(answered_.size(), 1u);
}

}  // namespace
}  // namespace dp::server
