#include "server/core/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp::core {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class LivenessTest : public testing::Test {
 protected:
  // Looks every second, as a shell would, and returns the last verdicts.
  std::vector<LoseWorker> After(absl::Duration duration) {
    std::vector<LoseWorker> overdue;
    for (const absl::Time end = now_ + duration; now_ < end;) {
      now_ += absl::Seconds(1);
      overdue = liveness_.Overdue(now_);
    }
    return overdue;
  }

  absl::Time now_ = absl::UnixEpoch();
  Liveness liveness_{absl::Seconds(5)};
  const WorkerId a_{1}, b_{2};
};

TEST_F(LivenessTest, AWorkerIsOverdueWhenItsLeaseHasRunOut) {
  liveness_.Hear(a_, Incarnation(7), now_);
  EXPECT_THAT(After(absl::Seconds(5)), IsEmpty());
  const std::vector<LoseWorker> overdue = After(absl::Seconds(1));
  ASSERT_THAT(overdue, SizeIs(1));
  EXPECT_EQ(overdue[0].worker, a_);
  EXPECT_EQ(overdue[0].incarnation, Incarnation(7));
  EXPECT_EQ(overdue[0].reason, "no heartbeat for 6s");
}

TEST_F(LivenessTest, AHeartbeatExtendsTheLease) {
  liveness_.Hear(a_, Incarnation(7), now_);
  liveness_.Hear(b_, Incarnation(8), now_);
  After(absl::Seconds(4));
  liveness_.Hear(a_, Incarnation(7), now_);
  const std::vector<LoseWorker> overdue = After(absl::Seconds(4));
  ASSERT_THAT(overdue, SizeIs(1));
  EXPECT_EQ(overdue[0].worker, b_);
}

TEST_F(LivenessTest, ADaemonHasTimeToFindARestartedCoordinator) {
  liveness_.Expect(a_, Incarnation(7), now_);
  EXPECT_EQ(liveness_.silent_for(a_, now_), absl::ZeroDuration());
  EXPECT_THAT(After(Liveness::kReturnsWithin + absl::Seconds(5)), IsEmpty());
  EXPECT_THAT(After(absl::Seconds(1)), SizeIs(1));
}

TEST_F(LivenessTest, AWorkerThatIsForgottenIsNotOverdueButStillSilent) {
  liveness_.Hear(a_, Incarnation(7), now_);
  liveness_.Forget(a_);
  EXPECT_THAT(After(absl::Seconds(10)), IsEmpty());
  EXPECT_EQ(liveness_.silent_for(a_, now_), absl::Seconds(10));
  EXPECT_FALSE(liveness_.silent_for(b_, now_).has_value());
}

TEST_F(LivenessTest, AForgottenWorkerThatIsHeardOfAgainIsWatchedAgain) {
  liveness_.Hear(a_, Incarnation(7), now_);
  liveness_.Forget(a_);
  liveness_.Hear(a_, Incarnation(8), now_);
  EXPECT_THAT(After(absl::Seconds(6)), SizeIs(1));
}

TEST_F(LivenessTest, ACoordinatorThatStoodStillBlamesNobody) {
  liveness_.Hear(a_, Incarnation(7), now_);
  After(absl::Seconds(1));
  now_ += absl::Minutes(1);
  EXPECT_THAT(liveness_.Overdue(now_), IsEmpty());
  EXPECT_THAT(After(absl::Seconds(5)), IsEmpty());
  EXPECT_THAT(After(absl::Seconds(1)), SizeIs(1));
}

TEST_F(LivenessTest, AClockThatIsSetBackBlamesNobody) {
  liveness_.Hear(a_, Incarnation(7), now_);
  After(absl::Seconds(3));
  now_ -= absl::Hours(1);
  EXPECT_THAT(After(absl::Seconds(5)), IsEmpty());
}

}  // namespace
}  // namespace dp::core
