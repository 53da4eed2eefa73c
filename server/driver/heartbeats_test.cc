#include "server/driver/heartbeats.h"

#include "gtest/gtest.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::server {
namespace {

constexpr absl::Duration kLease = absl::Seconds(5);

class HeartbeatsTest : public core::CoordinatorFixture {
 protected:
  void SetUp() override {
    worker_ = Register("node", 1);
    life_ = life(worker_);
    liveness_.Welcome(worker_, life_, now_);
    heartbeats_.Publish(coordinator_, liveness_);
    heartbeats_.TellLiveness(coordinator_, liveness_, now_);
  }
  std::optional<Heartbeats::Renewal> Beat(absl::Time at, uint64_t lease_number = 0) {
    return heartbeats_.Note({worker_, life_, at, lease_number});
  }
  bool Overdue(absl::Time now) {
    heartbeats_.TellLiveness(coordinator_, liveness_, now);
    return !liveness_.Overdue(now).empty();
  }
  // Asks often enough that Liveness sees no pause of the coordinator, up to but not at `until`.
  void Look(absl::Time until) {
    for (; now_ < until; now_ += kLease / 4) EXPECT_FALSE(Overdue(now_));
  }

  WorkerId worker_;
  Incarnation life_;
  core::Liveness liveness_{kLease};
  Heartbeats heartbeats_;
};

TEST_F(HeartbeatsTest, ARenewalIsAnsweredWithWhatWasPublished) {
  const auto renewal = Beat(now_);
  ASSERT_TRUE(renewal.has_value());
  EXPECT_EQ(renewal->revision, coordinator_.revision());
  EXPECT_EQ(renewal->lease.term, kLease);
  liveness_.Offer({{worker_, absl::Seconds(2)}}, now_);
  EXPECT_EQ(Beat(now_)->lease.term, kLease);
  heartbeats_.Publish(coordinator_, liveness_);
  EXPECT_EQ(Beat(now_)->lease.term, absl::Seconds(2));
  EXPECT_EQ(Beat(now_)->lease.number, liveness_.offer(worker_).number);
}

TEST_F(HeartbeatsTest, OnlyTheDriverAnswersForOthers) {
  EXPECT_FALSE(heartbeats_.Note({WorkerId(9), life_, now_}).has_value());
  EXPECT_FALSE(heartbeats_.Note({worker_, Incarnation(9), now_}).has_value());
}

TEST_F(HeartbeatsTest, ABeatCountsFromWhenItCame) {
  const absl::Time beat = now_ + absl::Seconds(2);
  Look(beat);
  ASSERT_TRUE(Beat(beat).has_value());
  Look(beat + kLease);
  EXPECT_FALSE(Overdue(beat + kLease));
  EXPECT_TRUE(Overdue(beat + kLease + absl::Milliseconds(1)));
}

TEST_F(HeartbeatsTest, ABeatCountsWithinTheTimesOfTheDriver) {
  const absl::Time told = now_ + absl::Seconds(1);
  EXPECT_FALSE(Overdue(told));
  Beat(absl::InfinitePast());  // the clock was set back
  EXPECT_FALSE(Overdue(told + absl::Seconds(1)));
  EXPECT_EQ(liveness_.silent_for(worker_, told + absl::Seconds(1)), absl::Seconds(1));
  Beat(absl::InfiniteFuture());
  EXPECT_FALSE(Overdue(told + absl::Seconds(2)));
  EXPECT_EQ(liveness_.silent_for(worker_, told + absl::Seconds(2)), absl::ZeroDuration());
}

TEST_F(HeartbeatsTest, AShorterLeaseHoldsOnceABeatNamesIt) {
  liveness_.Offer({{worker_, absl::Seconds(2)}}, now_);
  heartbeats_.Publish(coordinator_, liveness_);
  const uint64_t number = Beat(now_)->lease.number;
  EXPECT_FALSE(Overdue(now_));
  EXPECT_EQ(liveness_.lease(worker_), kLease);
  Beat(now_, number);
  EXPECT_FALSE(Overdue(now_));
  EXPECT_EQ(liveness_.lease(worker_), absl::Seconds(2));
}

TEST_F(HeartbeatsTest, AVerdictThatMissedABeatIsVoid) {
  Beat(now_);
  EXPECT_FALSE(heartbeats_.Revoke(worker_));
  heartbeats_.TellLiveness(coordinator_, liveness_, now_);
  EXPECT_TRUE(heartbeats_.Revoke(worker_));
  EXPECT_FALSE(Beat(now_).has_value());
}

TEST_F(HeartbeatsTest, ABeatOutlivesAPublicationButNotItsIncarnation) {
  Beat(now_);
  heartbeats_.Publish(coordinator_, liveness_);
  EXPECT_FALSE(heartbeats_.Revoke(worker_));
  Lose(worker_);
  heartbeats_.Publish(coordinator_, liveness_);
  EXPECT_TRUE(heartbeats_.Revoke(worker_));
  Register("node", 1);
  heartbeats_.Publish(coordinator_, liveness_);
  EXPECT_FALSE(Beat(now_).has_value());
  life_ = life(worker_);
  EXPECT_TRUE(Beat(now_).has_value());
}

TEST_F(HeartbeatsTest, ADaemonThatLeavesIsTheDrivers) {
  Beat(now_);
  Apply(core::LeaveWorker{worker_, life_});
  liveness_.Leave(worker_);
  heartbeats_.TellLiveness(coordinator_, liveness_, now_ + absl::Seconds(1));
  EXPECT_EQ(liveness_.silent_for(worker_, now_ + absl::Seconds(1)), absl::Seconds(2));
  heartbeats_.Publish(coordinator_, liveness_);
  EXPECT_FALSE(Beat(now_).has_value());
}

TEST_F(HeartbeatsTest, NobodyIsAnsweredAfterTheEnd) {
  heartbeats_.Close();
  EXPECT_FALSE(Beat(now_).has_value());
}

}  // namespace
}  // namespace dp::server
