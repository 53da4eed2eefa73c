#include "server/driver/waiters.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using core::Topic;
using Wake = Waiters::Wake;

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
Topic Job(uint64_t id) { return {.kind = Topic::Kind::kJob, .id = id}; }
Topic Key(const std::string& key) { return {.kind = Topic::Kind::kStoreKey, .id = 1, .key = key}; }

Topic Element(const std::string& queue) {
  return {.kind = Topic::Kind::kStoreElement, .id = 1, .key = queue};
}

class WaitersTest : public ::testing::Test {
 protected:
  // Parks a call that a change answers once `satisfied_`, and that any other wake answers.
  void Park(Waiters::Ticket ticket, std::vector<Topic> topics, absl::Time deadline = At(60),
            std::optional<BlockedCall> blocked = {}) {
    auto question = [this, ticket](Wake wake, Waiters::Changed changed) {
      ++asked_;
      for (const Topic* topic : changed) told_.push_back(topic->key);
      if (wake == Wake::kChanged && !satisfied_) return false;
      answered_.emplace_back(ticket, wake);
      return true;
    };
    waiters_.Park({ticket, std::move(topics), deadline, question, std::move(blocked)});
  }

  static BlockedCall InStore(uint64_t job) { return {.job = JobId(job)}; }

  Waiters waiters_{{.watches = 4, .in_stores = 3, .in_one_store = 2}};
  bool satisfied_ = false;
  int asked_ = 0;
  std::vector<std::string> told_;  // the keys that have changed
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

TEST_F(WaitersTest, ACallIsToldWhatHasChangedOfItsTopics) {
  Park(1, {Key("a"), Key("b"), Key("c")});
  waiters_.WakeChanged({Key("c"), Key("a"), Key("other")});
  EXPECT_THAT(told_, ElementsAre("c", "a"));
}

TEST_F(WaitersTest, AnElementAnswersOneCall) {
  Park(1, {Element("q")});
  Park(2, {Element("q")});
  Park(3, {Element("q")});
  satisfied_ = true;
  waiters_.WakeChanged({Element("q")});
  EXPECT_THAT(answered_, IsEmpty());
  EXPECT_TRUE(waiters_.WakeOne(Element("q")));
  EXPECT_THAT(answered_, ElementsAre(std::pair(1, Wake::kChanged)));
}

TEST_F(WaitersTest, AnElementIsForTheLongestWaitAlsoWhereItIsParkedAnew) {
  Park(1, {Element("q")}, At(60), BlockedCall{.since = At(5)});
  Park(2, {Element("q")}, At(60), BlockedCall{.since = At(3)});
  satisfied_ = true;
  waiters_.WakeOne(Element("q"));
  EXPECT_THAT(answered_, ElementsAre(std::pair(2, Wake::kChanged)));
  waiters_.Cancel(1);
  EXPECT_EQ(waiters_.size(), 0u);
}

TEST_F(WaitersTest, AnElementThatOneCallDoesNotTakeIsOfferedToTheNext) {
  Park(1, {Element("q"), Key("k")});
  Park(2, {Element("q")});
  EXPECT_FALSE(waiters_.WakeOne(Element("q")));
  EXPECT_THAT(told_, ElementsAre("q", "q"));
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
  EXPECT_TRUE(waiters_.Cancel(1));
  EXPECT_FALSE(waiters_.Cancel(1));
  waiters_.WakeChanged({Job(1)});
  EXPECT_THAT(answered_, ElementsAre(std::pair(1, Wake::kCancelled)));
}

TEST_F(WaitersTest, ACallBeyondTheLimitIsRefused) {
  for (int ticket = 1; ticket <= 4; ++ticket) Park(ticket, {Job(1)});
  Park(5, {Job(1)});
  EXPECT_EQ(waiters_.size(), 4u);
  EXPECT_THAT(answered_, ElementsAre(std::pair(5, Wake::kRefused)));
}

TEST_F(WaitersTest, AJobThatFillsItsShareKeepsNobodyElseFromWaiting) {
  for (int ticket = 1; ticket <= 3; ++ticket) Park(ticket, {Key("k")}, At(60), InStore(1));
  EXPECT_THAT(answered_, ElementsAre(std::pair(3, Wake::kRefused)));
  EXPECT_THAT(waiters_.CheckRoomInStore(JobId(1)).message(), HasSubstr("job 1: 2 calls wait in"));
  Park(4, {Key("k")}, At(60), InStore(2));
  Park(5, {Key("k")}, At(60), InStore(2));
  EXPECT_THAT(answered_, ElementsAre(std::pair(3, Wake::kRefused), std::pair(5, Wake::kRefused)));
  EXPECT_THAT(waiters_.CheckRoomInStore(JobId(2)).message(), HasSubstr("stores of all jobs"));
  for (int ticket = 6; ticket <= 9; ++ticket) Park(ticket, {Job(1)});
  EXPECT_EQ(waiters_.size(), 7u);
}

TEST_F(WaitersTest, AWaitInAStoreThatEndsLeavesItsRoom) {
  Park(1, {Key("k")}, At(60), InStore(1));
  Park(2, {Key("k")}, At(60), InStore(1));
  waiters_.Cancel(1);
  EXPECT_EQ(waiters_.CheckRoomInStore(JobId(1)), absl::OkStatus());
  Park(3, {Key("k")}, At(60), InStore(1));
  EXPECT_EQ(waiters_.blocked(JobId(1)).size(), 2u);
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

class CancelledWaitsTest : public ::testing::Test {
 protected:
  void Park(Waiters::Ticket ticket) {
    waiters_.Park({ticket, {}, absl::InfiniteFuture(), [this, ticket](Waiters::Wake wake, auto) {
                     if (wake == Waiters::Wake::kChanged) return false;
                     ended_.push_back(ticket);
                     return true;
                   }});
  }

  static constexpr size_t kQueueCapacity = 10;
  Waiters waiters_{Waiters::Capacity{}};
  CancelledWaits cancelled_{kQueueCapacity};
  std::vector<Waiters::Ticket> ended_;
};

TEST_F(CancelledWaitsTest, AWaitThatIsParkedEndsAtOnce) {
  Park(1);
  cancelled_.Add({1});
  cancelled_.Cancel(waiters_, /*taken=*/4, /*more=*/true);
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(CancelledWaitsTest, AWaitBehindTheBatchEndsOnceItIsParked) {
  cancelled_.Add({1});
  cancelled_.Cancel(waiters_, /*taken=*/4, /*more=*/true);
  Park(1);
  cancelled_.Cancel(waiters_, /*taken=*/4, /*more=*/true);
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(CancelledWaitsTest, AWaitThatWasAnsweredIsForgottenWithTheQueueThatItMayHaveBeenIn) {
  cancelled_.Add({1});
  cancelled_.Cancel(waiters_, /*taken=*/6, /*more=*/true);
  cancelled_.Add({2});
  cancelled_.Cancel(waiters_, /*taken=*/6, /*more=*/true);
  EXPECT_FALSE(cancelled_.empty());  // the second may still be queued
  cancelled_.Cancel(waiters_, /*taken=*/4, /*more=*/true);
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(CancelledWaitsTest, ABatchThatTakesAllLeavesNone) {
  cancelled_.Add({1});
  cancelled_.Cancel(waiters_, /*taken=*/1, /*more=*/false);
  EXPECT_TRUE(cancelled_.empty());
}

}  // namespace
}  // namespace dp::server
