#include "client/retry_loop.h"

#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "client/absence.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A small language: attempts answer from a script; time passes only while the loop waits or an
// attempt runs.
class RetryLoopTest : public ::testing::Test, private Clock {
 protected:
  absl::Time Now() const override { return now_; }

  absl::StatusOr<int> Run() {
    return RetryLoop(
        RetryPolicy(options_, seed_), *this,
        [this](absl::Duration wait) {
          waits_.push_back(wait);
          now_ += wait;
          return !stopped_;
        },
        [this](absl::Duration deadline_in) -> absl::StatusOr<int> {
          deadlines_.push_back(deadline_in);
          now_ += takes_;
          const absl::Status answer = script_.empty() ? always_ : script_.front();
          if (!script_.empty()) script_.erase(script_.begin());
          if (!answer.ok()) return answer;
          return 7;
        });
  }

  RetryOptions options_{.deadline = absl::Seconds(10), .attempt = absl::Seconds(2)};
  std::vector<absl::Status> script_;
  absl::Status always_;
  absl::Duration takes_;
  bool stopped_ = false;
  uint64_t seed_ = 42;
  std::vector<absl::Duration> waits_, deadlines_;

 private:
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(RetryLoopTest, ASuccessIsReturnedAtOnce) {
  EXPECT_EQ(Run().value(), 7);
  EXPECT_TRUE(waits_.empty());
}

TEST_F(RetryLoopTest, UnreachableAndSlowAnswersAreTriedAgain) {
  script_ = {absl::UnavailableError("down"), absl::DeadlineExceededError("slow")};
  EXPECT_EQ(Run().value(), 7);
  EXPECT_EQ(waits_.size(), 2u);
}

TEST_F(RetryLoopTest, ARefusalIsReturnedAsItIs) {
  always_ = absl::NotFoundError("no job 9");
  EXPECT_EQ(Run().status(), always_);
  EXPECT_EQ(deadlines_.size(), 1u);
}

TEST_F(RetryLoopTest, AbortedIsTriedAgainOnlyWhereTheRequestAllowsIt) {
  script_ = {absl::AbortedError("lost a race")};
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kAborted);
  script_ = {absl::AbortedError("lost a race")};
  options_.retry_aborted = true;
  EXPECT_TRUE(Run().ok());
}

TEST_F(RetryLoopTest, ADeadlineThatIsTheAnswerIsReturned) {
  always_ = absl::DeadlineExceededError("keys are missing: a");
  options_.retry_deadline_exceeded = false;
  EXPECT_EQ(Run().status(), always_);
}

TEST_F(RetryLoopTest, GivingUpKeepsTheCodeAndSaysHowLongItTried) {
  always_ = absl::UnavailableError("coordinator at h:1: refused");
  takes_ = absl::Seconds(4);
  const absl::Status status = Run().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("coordinator at h:1: refused"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gave up after 3 attempts in 12.1s"));
}

TEST_F(RetryLoopTest, GivingUpKeepsTheMarkOfAbsence) {
  always_ = WithAbsence(Absence::kNothingConnected, absl::UnavailableError("refused"));
  EXPECT_EQ(AbsenceIn(Run().status()), Absence::kNothingConnected);
  always_ = absl::UnavailableError("reset");
  EXPECT_EQ(AbsenceIn(Run().status()), Absence::kNone);
}

TEST_F(RetryLoopTest, NoAttemptGetsMoreTimeThanIsLeft) {
  script_.assign(3, absl::UnavailableError("down"));
  options_.backoff = {.initial = absl::Seconds(2), .max = absl::Seconds(2)};
  takes_ = absl::Seconds(2);
  EXPECT_EQ(Run().value(), 7);
  ASSERT_EQ(deadlines_.size(), 4u);
  EXPECT_EQ(deadlines_[0], absl::Seconds(2));
  EXPECT_LT(deadlines_[3], absl::Seconds(1));
}

TEST_F(RetryLoopTest, APauseNeverOutlastsTheDeadline) {
  always_ = absl::UnavailableError("down");
  options_.backoff = {.initial = absl::Minutes(1), .max = absl::Minutes(1)};
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("gave up after 2 attempts in 10s"));
  EXPECT_EQ(waits_, std::vector<absl::Duration>{absl::Seconds(10)});
}

TEST_F(RetryLoopTest, APauseIsNoShorterThanTheCoordinatorAsksFor) {
  const auto busy = absl::UnavailableError("too many calls");
  script_ = {RetryNotBefore(absl::Seconds(3), busy), busy,
             RetryNotBefore(absl::Milliseconds(1), busy)};
  EXPECT_EQ(Run().value(), 7);
  ASSERT_EQ(waits_.size(), 3u);
  EXPECT_GT(waits_[0], absl::Seconds(3));
  EXPECT_LT(waits_[1], absl::Seconds(3));
  EXPECT_GT(waits_[2], absl::Milliseconds(1));
}

TEST_F(RetryLoopTest, CallersThatHearTheSameTimeComeBackAtDifferentTimesLessAndLessOften) {
  const auto busy = RetryNotBefore(absl::Milliseconds(200), absl::UnavailableError("too many"));
  std::set<absl::Duration> firsts;
  for (seed_ = 0; seed_ < 100; ++seed_) {
    script_.assign(6, busy);
    waits_.clear();
    EXPECT_EQ(Run().value(), 7);
    EXPECT_LT(waits_.front(), absl::Milliseconds(250));
    EXPECT_GT(waits_.back(), absl::Milliseconds(700));
    firsts.insert(waits_.front());
  }
  EXPECT_EQ(firsts.size(), 100u);
}

TEST_F(RetryLoopTest, APauseBeyondTheDeadlineEndsTheAttemptsAtOnce) {
  always_ = RetryNotBefore(absl::Seconds(11), absl::UnavailableError("too many calls"));
  const absl::Status status = Run().status();
  EXPECT_TRUE(waits_.empty());
  EXPECT_TRUE(IsRateLimited(status));
  EXPECT_EQ(status.message(),
            "too many calls (gave up after 1 attempt in 0s; 10s is left, too short for another)");
}

TEST_F(RetryLoopTest, OfARateLimitTheLatestWordsAreEnough) {
  script_ = {RetryNotBefore(absl::Seconds(2), absl::UnavailableError("try again in 2s"))};
  always_ = RetryNotBefore(absl::Seconds(9), absl::UnavailableError("try again in 9s"));
  EXPECT_THAT(std::string(Run().status().message()),
              StartsWith("try again in 9s (gave up after 2 attempts in 2"));
}

TEST_F(RetryLoopTest, AfterAPauseThatTheCoordinatorAskedForTimeIsLeftForTheAttempt) {
  script_ = {RetryNotBefore(absl::Seconds(9), absl::UnavailableError("too many calls"))};
  options_.backoff = {.initial = absl::Minutes(1), .max = absl::Minutes(1)};
  EXPECT_EQ(Run().value(), 7);
  EXPECT_EQ(waits_, std::vector<absl::Duration>{absl::Seconds(9.75)});
}

TEST_F(RetryLoopTest, AShutdownEndsTheWait) {
  always_ = absl::UnavailableError("down");
  stopped_ = true;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(waits_.size(), 1u);
}

TEST_F(RetryLoopTest, TheSameSeedWaitsTheSame) {
  always_ = absl::UnavailableError("down");
  EXPECT_FALSE(Run().ok());
  const std::vector<absl::Duration> first = std::exchange(waits_, {});
  EXPECT_FALSE(Run().ok());
  EXPECT_EQ(waits_, first);
}

TEST(PauseTest, AStoppedPauseNeverWaits) {
  Pause pause;
  EXPECT_TRUE(pause.For(absl::Milliseconds(1)));
  pause.Stop();
  EXPECT_FALSE(pause.For(absl::InfiniteDuration()));
}

TEST_F(RetryLoopTest, WhatACoordinatorSaidAsItStoppedOutlastsItsAbsence) {
  script_ = {absl::UnavailableError("it is stopping: its journal failed")};
  always_ = absl::UnavailableError("refused");
  const absl::Status status = Run().status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("refused (at first: it is stopping: its journal failed; gave up after"));
}

TEST(RetryPolicyTest, WhyNobodyWasReachedOutlastsAnAttemptWithoutTime) {
  RetryPolicy policy({.deadline = absl::ZeroDuration()}, 1);
  (void)policy.Next(absl::UnavailableError("connection refused"), absl::ZeroDuration());
  const absl::Status late = absl::DeadlineExceededError("Deadline Exceeded");
  (void)policy.Next(late, absl::ZeroDuration());
  EXPECT_EQ(policy.GiveUp(late, absl::ZeroDuration()).message(),
            "connection refused (gave up after 2 attempts in 0s)");
}

}  // namespace
}  // namespace dp::client
