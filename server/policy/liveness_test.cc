#include "server/policy/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "gtest/gtest.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class LivenessTest : public testing::Test {
 protected:
  // Looks every second, as the driver would, and returns the last verdicts.
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

TEST_F(LivenessTest, OfAWorkerThatHasAnnouncedItsEndThatIsTold) {
  liveness_.Hear(a_, Incarnation(7), now_);
  liveness_.Leave(a_);
  const std::vector<LoseWorker> overdue = After(absl::Seconds(6));
  ASSERT_THAT(overdue, SizeIs(1));
  EXPECT_EQ(overdue[0].reason, "it was shutting down; no heartbeat for 6s");
}

TEST_F(LivenessTest, OfAWorkerWhoseAccessWasRevokedThatIsToldUntilItIsHeardAgain) {
  liveness_.Hear(a_, Incarnation(7), now_);
  liveness_.Revoke(a_);
  EXPECT_EQ(After(absl::Seconds(6)).at(0).reason, "its access was revoked; no heartbeat for 6s");
  liveness_.Hear(a_, Incarnation(7), now_);
  EXPECT_EQ(After(absl::Seconds(6)).at(0).reason, "no heartbeat for 6s");
}

TEST_F(LivenessTest, SaysWhenTheNextLeaseWillHaveRunOut) {
  EXPECT_LE(liveness_.next_look(), now_);
  liveness_.Hear(a_, Incarnation(7), now_);
  const absl::Time over = now_ + absl::Seconds(5);
  After(absl::Seconds(3));
  liveness_.Hear(b_, Incarnation(8), now_);
  After(absl::Seconds(1));
  EXPECT_GT(liveness_.next_look(), over);
  EXPECT_LE(liveness_.next_look(), over + absl::Milliseconds(10));
  EXPECT_THAT(liveness_.Overdue(liveness_.next_look()), SizeIs(1));
  EXPECT_GT(liveness_.next_look(), over + absl::Milliseconds(10));  // for the other worker
}

TEST_F(LivenessTest, SaysSoWhenALeaseBecomesShorter) {
  liveness_.Hear(a_, Incarnation(7), now_);
  (void)liveness_.Overdue(now_);
  EXPECT_GT(liveness_.next_look(), now_ + absl::Seconds(1));
  liveness_.Offer({{a_, absl::Seconds(1)}}, now_);
  EXPECT_GT(liveness_.next_look(), now_ + absl::Seconds(1));
  liveness_.Hear(a_, Incarnation(7), now_, liveness_.offer(a_).number);
  EXPECT_LT(liveness_.next_look(), now_ + absl::Seconds(1));
}

// Such a look would be late if all leases had been that short before.
TEST_F(LivenessTest, ALeaseThatBecomesShorterIsNoStall) {
  liveness_.Hear(a_, Incarnation(7), now_);
  liveness_.Hear(b_, Incarnation(8), now_);
  (void)liveness_.Overdue(now_);
  liveness_.Offer({{a_, absl::Seconds(2)}}, now_);
  now_ += absl::Milliseconds(1'250);
  liveness_.Hear(a_, Incarnation(7), now_, liveness_.offer(a_).number);
  (void)liveness_.Overdue(now_);
  EXPECT_EQ(liveness_.awake_since(), absl::InfinitePast());
  EXPECT_EQ(liveness_.silent_for(b_, now_), absl::Milliseconds(1'250));
}

// A coordinator that stands still must know it.
TEST_F(LivenessTest, SaysSoAFewTimesWithinALease) {
  EXPECT_THAT(After(absl::Seconds(1)), IsEmpty());
  EXPECT_GT(liveness_.next_look(), now_);
  EXPECT_LT(liveness_.next_look(), now_ + absl::Seconds(5) / 2);
}

TEST_F(LivenessTest, AHeartbeatExtendsTheLease) {
  liveness_.Hear(a_, Incarnation(7), now_);
  liveness_.Hear(b_, Incarnation(8), now_);
  After(absl::Seconds(4));
  liveness_.Hear(a_, Incarnation(7), now_);
  const std::vector<LoseWorker> overdue = After(absl::Seconds(2));
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

class CrowdTest : public LivenessTest {
 protected:
  // Makes workers, of which the last `silent` have fallen silent a little after each other.
  void Crowd(int workers, int silent) {
    for (int i = 1; i <= workers; ++i) {
      const absl::Duration earlier = absl::Milliseconds(200) * i;
      liveness_.Hear(WorkerId(i), Incarnation(i), now_ - earlier);
    }
    beating_ = workers - silent;
  }
  std::vector<LoseWorker> After(absl::Duration duration) {
    std::vector<LoseWorker> overdue;
    for (const absl::Time end = now_ + duration; now_ < end;) {
      now_ += absl::Milliseconds(100);
      for (int i = 1; i <= beating_; ++i) liveness_.Hear(WorkerId(i), Incarnation(i), now_);
      for (LoseWorker& verdict : liveness_.Overdue(now_)) {
        liveness_.Forget(verdict.worker);
        overdue.push_back(std::move(verdict));
      }
    }
    return overdue;
  }

  int beating_ = 0;
};

TEST_F(CrowdTest, WhereMostFallSilentAtOnceNoneIsGivenUp) {
  Crowd(5, 3);
  EXPECT_THAT(After(absl::Minutes(5)), IsEmpty());
  EXPECT_EQ(liveness_.held_back(), 3u);
}

TEST_F(CrowdTest, WhereHalfFallSilentTheyAre) {
  Crowd(6, 3);
  EXPECT_THAT(After(absl::Seconds(10)), SizeIs(3));
  EXPECT_EQ(liveness_.held_back(), 0u);
}

TEST_F(CrowdTest, TwoThatFallSilentTogetherAreMoreThanHalfOfTwo) {
  Crowd(2, 2);
  EXPECT_THAT(After(absl::Minutes(5)), IsEmpty());
  EXPECT_EQ(liveness_.held_back(), 2u);
}

TEST_F(CrowdTest, OneOfTwoIsGivenUpAsAlways) {
  Crowd(2, 1);
  EXPECT_THAT(After(absl::Seconds(6)), SizeIs(1));
}

TEST_F(CrowdTest, TwoThatDieOneAfterTheOtherAreBothGivenUp) {
  Crowd(2, 1);
  EXPECT_THAT(After(absl::Seconds(3)), IsEmpty());
  beating_ = 0;
  EXPECT_THAT(After(absl::Seconds(6)), SizeIs(2));
}

TEST_F(CrowdTest, TheSilenceOfAnOnlyWorkerSaysNothingOfOthers) {
  Crowd(1, 1);
  EXPECT_THAT(After(absl::Seconds(6)), SizeIs(1));
}

TEST_F(CrowdTest, NobodyIsHeldForEver) {
  Crowd(3, 3);
  EXPECT_THAT(After(Liveness::kHoldMax - absl::Seconds(5)), IsEmpty());
  EXPECT_THAT(After(absl::Seconds(10)), SizeIs(3));
}

TEST_F(CrowdTest, ThoseThatComeBackAreAsBefore) {
  Crowd(5, 3);
  After(absl::Seconds(30));
  beating_ = 5;
  EXPECT_THAT(After(absl::Seconds(30)), IsEmpty());
  beating_ = 4;
  EXPECT_THAT(After(absl::Seconds(10)), SizeIs(1));
}

TEST_F(CrowdTest, TheLastOnesToComeBackAreNotGivenUpForIt) {
  Crowd(5, 5);
  EXPECT_THAT(After(absl::Seconds(30)), IsEmpty());
  beating_ = 3;
  EXPECT_THAT(After(absl::Seconds(9)), IsEmpty());
  beating_ = 5;
  EXPECT_THAT(After(absl::Minutes(1)), IsEmpty());
}

TEST_F(CrowdTest, WhoDoesNotComeBackWithTheOthersIsGivenUpAfterAFullTerm) {
  Crowd(5, 5);
  After(absl::Seconds(30));
  beating_ = 4;
  EXPECT_THAT(After(Liveness::kReturnsWithin + absl::Seconds(4)), IsEmpty());
  EXPECT_THAT(After(absl::Seconds(2)), SizeIs(1));
}

TEST_F(CrowdTest, TheSilenceOfWhoWasGivenUpBeforeGoesOn) {
  Crowd(5, 5);
  liveness_.Forget(WorkerId(5));
  After(absl::Seconds(30));
  beating_ = 4;
  After(absl::Seconds(1));
  EXPECT_EQ(liveness_.silent_for(WorkerId(5), now_), absl::Seconds(32));
}

TEST_F(CrowdTest, ThoseThatShutDownAreNoSign) {
  Crowd(5, 4);
  for (int i = 3; i <= 5; ++i) liveness_.Leave(WorkerId(i));
  liveness_.Hear(WorkerId(1), Incarnation(1), now_);
  EXPECT_THAT(After(absl::Seconds(10)), SizeIs(4));
}

TEST_F(CrowdTest, NorAreThoseWhoseAccessWasRevoked) {
  Crowd(5, 4);
  for (int i = 3; i <= 5; ++i) liveness_.Revoke(WorkerId(i));
  liveness_.Hear(WorkerId(1), Incarnation(1), now_);
  EXPECT_THAT(After(absl::Seconds(10)), SizeIs(4));
}

TEST_F(CrowdTest, WhoKnowsMoreMayAskWhetherALeaseHasRunOut) {
  Crowd(5, 3);
  After(absl::Seconds(10));
  EXPECT_TRUE(liveness_.lapsed(WorkerId(5), now_));
  EXPECT_FALSE(liveness_.lapsed(WorkerId(1), now_));
}

// Leases that jobs shorten.
class OfferTest : public CrowdTest {
 protected:
  // Offers a lease to the first `workers`. They accept it with Acknowledge.
  void Offer(int workers, absl::Duration term) {
    std::map<WorkerId, absl::Duration> terms;
    for (int i = 1; i <= workers; ++i) terms[WorkerId(i)] = term;
    liveness_.Offer(terms, now_);
  }
  void Acknowledge(int worker) {
    const WorkerId id(worker);
    liveness_.Hear(id, Incarnation(worker), now_, liveness_.offer(id).number);
  }
};

TEST_F(OfferTest, AShorterLeaseHoldsFromWhenTheDaemonSaysThatItKnows) {
  liveness_.Welcome(a_, Incarnation(1), now_);
  Offer(1, absl::Seconds(2));
  EXPECT_EQ(liveness_.offer(a_).term, absl::Seconds(2));
  EXPECT_EQ(liveness_.lease(a_), absl::Seconds(5));
  liveness_.Hear(a_, Incarnation(1), now_);  // sent before the offer arrived
  EXPECT_EQ(liveness_.lease(a_), absl::Seconds(5));
  Acknowledge(1);
  EXPECT_EQ(liveness_.lease(a_), absl::Seconds(2));
  EXPECT_THAT(After(absl::Seconds(2)), IsEmpty());
  EXPECT_THAT(After(absl::Milliseconds(200)), SizeIs(1));
}

TEST_F(OfferTest, ALongerLeaseHoldsAtOnce) {
  liveness_.Welcome(a_, Incarnation(1), now_);
  Offer(1, absl::Seconds(2)), Acknowledge(1);
  Offer(0, {});
  EXPECT_EQ(liveness_.lease(a_), absl::Seconds(5));
}

TEST_F(OfferTest, ADaemonThatMayHaveTheLongerLeaseIsNotHeldToAnEarlierShortOne) {
  liveness_.Welcome(a_, Incarnation(1), now_);
  Offer(1, absl::Seconds(2));
  const uint64_t earlier = liveness_.offer(a_).number;
  Acknowledge(1);
  Offer(0, {}), Offer(1, absl::Seconds(2));
  liveness_.Hear(a_, Incarnation(1), now_, earlier);  // arrives late
  EXPECT_EQ(liveness_.lease(a_), absl::Seconds(5));
  Acknowledge(1);
  EXPECT_EQ(liveness_.lease(a_), absl::Seconds(2));
}

TEST_F(OfferTest, ARegistrationBeginsWithTheLongestLeaseAndIsOfferedTheShortOneAnew) {
  liveness_.Welcome(a_, Incarnation(1), now_);
  Offer(1, absl::Seconds(2));
  const uint64_t earlier = liveness_.offer(a_).number;
  Acknowledge(1);
  liveness_.Welcome(a_, Incarnation(1), now_);
  EXPECT_EQ(liveness_.lease(a_), absl::Seconds(5));
  EXPECT_EQ(liveness_.offer(a_).term, absl::Seconds(2));
  EXPECT_GT(liveness_.offer(a_).number, earlier);
}

TEST_F(OfferTest, AnotherLifeOfTheWorkerKnowsOfNoOffer) {
  liveness_.Welcome(a_, Incarnation(1), now_);
  Offer(1, absl::Seconds(2)), Acknowledge(1);
  liveness_.Welcome(a_, Incarnation(2), now_);
  EXPECT_EQ(liveness_.lease(a_), absl::Seconds(5));
  EXPECT_EQ(liveness_.offer(a_).term, absl::Seconds(5));
}

// The others are not late yet when the short lease expires.
TEST_F(OfferTest, WhereAllFallSilentAShortLeaseDoesNotRunOutBeforeTheOthersShowIt) {
  Crowd(3, 3);
  Offer(1, absl::Seconds(2)), Acknowledge(1);
  EXPECT_THAT(After(absl::Minutes(5)), IsEmpty());
  EXPECT_EQ(liveness_.held_back(), 3u);
}

TEST_F(OfferTest, WhereTheOthersAreHeardAShortLeaseRunsOutInTime) {
  Crowd(3, 0);
  Offer(3, absl::Seconds(2)), Acknowledge(3);
  beating_ = 2;
  EXPECT_THAT(After(absl::Seconds(2)), IsEmpty());
  EXPECT_THAT(After(absl::Milliseconds(200)), SizeIs(1));
}

class LeasesTest : public CoordinatorFixture {
 protected:
  LeasesTest() {
    for (const WorkerId worker : {a_, b_}) liveness_.Welcome(worker, life(worker), now_);
  }

  JobId Run(int ranks, absl::Duration detect_within) {
    JobSpec spec{.name = "job", .ranks = ranks};
    spec.detect_within = detect_within;
    const JobId job = SubmitSpec(spec);
    PlaceAll();
    OfferLeases(coordinator_, liveness_, now_);
    return job;
  }
  absl::Duration offered(WorkerId worker) const { return liveness_.offer(worker).term; }

  const WorkerId a_ = Register("a", 2), b_ = Register("b", 2);
  Liveness liveness_{absl::Seconds(5)};
};

TEST_F(LeasesTest, AJobMakesTheLeaseOfItsWorkersShorterAndNoOthers) {
  const JobId job = Run(2, absl::Seconds(4));
  ASSERT_EQ(places(job), "a/0 a/1");
  EXPECT_EQ(offered(a_), absl::Seconds(3.2));
  EXPECT_EQ(offered(b_), absl::Seconds(5));
}

TEST_F(LeasesTest, OfTheJobsOfAWorkerTheOneInTheGreatestHurryDecides) {
  Run(1, absl::Seconds(5)), Run(1, absl::Seconds(3)), Run(1, absl::InfiniteDuration());
  EXPECT_EQ(offered(a_), absl::Seconds(2.4));
}

TEST_F(LeasesTest, AJobThatIsOverAsksForNothing) {
  const JobId job = Run(1, absl::Seconds(3));
  ExitWith(job, 0, 1), Release(job, 0);
  OfferLeases(coordinator_, liveness_, now_);
  EXPECT_EQ(offered(a_), absl::Seconds(5));
}

TEST_F(LeasesTest, NobodyAsksForALongerOne) {
  Run(1, absl::Hours(1));
  EXPECT_EQ(offered(a_), absl::Seconds(5));
}

// Hosts come under new names, and go.
TEST_F(LeasesTest, WhoIsNoLongerListedIsNotKnownAnyMore) {
  for (size_t i = 0; i < WorkerTable::kLostMax + 100; ++i) {
    const WorkerId gone = Register(absl::StrCat("spot-", i), 1);
    liveness_.Welcome(gone, life(gone), now_);
    Lose(gone), liveness_.Forget(gone);
    OfferLeases(coordinator_, liveness_, now_);
  }
  EXPECT_EQ(liveness_.known(), coordinator_.workers().size());
  EXPECT_EQ(liveness_.known(), WorkerTable::kLostMax + 2);
  EXPECT_TRUE(liveness_.silent_for(a_, now_).has_value());
}

}  // namespace
}  // namespace dp::core
