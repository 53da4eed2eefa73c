// A daemon and its coordinator: registration, leases, absences and names that others have.

#include <fstream>

#include "worker/agent/testing/agent_fixture.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

using AgentLeaseTest = AgentFixture;

TEST_F(AgentLeaseTest, ALeaseThatIsOfferedIsNamedByTheHeartbeatsThatFollow) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_TRUE(coordinator_.AwaitLease(0));
  coordinator_.OfferLease(absl::Milliseconds(120), 7);
  EXPECT_TRUE(coordinator_.AwaitLease(7));
  coordinator_.OfferLease(absl::Milliseconds(80), 8);
  EXPECT_TRUE(coordinator_.AwaitLease(8));
  coordinator_.Restart();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_TRUE(coordinator_.AwaitLease(8));
}

TEST_F(AgentLeaseTest, TheCoordinatorMayBeAwayAtTheStart) {
  coordinator_.SetReachable(false);
  Run();
  coordinator_.SetReachable(true);
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(AgentLeaseTest, WhatHappensWhileTheCoordinatorIsAwayIsReportedWhenItIsBack) {
  RunRankZero();
  coordinator_.SetReachable(false);
  End(0, 0);
  coordinator_.SetReachable(true);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

TEST_F(AgentLeaseTest, ARestartedCoordinatorFindsTheSameIncarnationAndItsRanksRunning) {
  RunRankZero();
  coordinator_.Restart();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
}

TEST_F(AgentLeaseTest, ALostLeaseKillsAllRanksAndBeginsANewIncarnation) {
  RunRankZero();
  coordinator_.LoseWorker();
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
  coordinator_.Assign({ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "start 1");
}

// Its versions begin again below those that the daemon has seen.
TEST_F(AgentLeaseTest, ACoordinatorThatIsSetUpAnewIsWatchedFromItsFirstVersionOn) {
  RunRankZero();
  coordinator_.Assign({ARank(0)}), coordinator_.Assign({ARank(0)});
  coordinator_.SetUpAnew();
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
  coordinator_.Assign({ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "start 1");
}

TEST_F(AgentLeaseTest, ADaemonWhoseNameIsTakenOverKillsItsRanksAndWaitsForTheName) {
  Run("gpu-a");
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  coordinator_.HoldName("gpu-a", /*beats=*/true);
  coordinator_.LoseWorker();
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  coordinator_.AwaitListings(4);
  coordinator_.HoldName("", /*beats=*/false);
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
}

class TakenNameTest : public AgentFixture, public testing::WithParamInterface<bool> {};

// The holder may be this daemon's life before, whose lease runs out, or be ended by its owner.
TEST_P(TakenNameTest, ADaemonWhoseNameIsTakenAsksUntilItIsFree) {
  coordinator_.HoldName("gpu-a", /*beats=*/GetParam());
  Run("gpu-a");
  coordinator_.AwaitListings(6);
  coordinator_.HoldName("", /*beats=*/false);
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

INSTANTIATE_TEST_SUITE_P(HolderBeats, TakenNameTest, testing::Bool());

TEST_F(AgentLeaseTest, ADaemonNamesThoseBeforeItAsDeadOnceNothingIsLeftOfTheirRanks) {
  IncarnationRecord before(directory_.path(), "boot");
  ASSERT_TRUE(before.Add(Incarnation(7)).ok());
  ASSERT_TRUE(before.Add(Incarnation(8)).ok());
  IncarnationRecord record(directory_.path(), "boot");
  incarnations_ = &record;
  coordinator_.HoldName("gpu-a", /*beats=*/false);
  Run("gpu-a");
  coordinator_.AwaitListings(2);
  EXPECT_THAT(coordinator_.replaced(), testing::IsEmpty());
  guards_gone_ = true;
  coordinator_.AwaitListings(5);
  EXPECT_THAT(coordinator_.replaced(), testing::ElementsAre(7, 8));
  coordinator_.HoldName("", /*beats=*/false);
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_EQ(IncarnationRecord(directory_.path(), "boot").recorded().size(), 3u);
  events_.Tell(ShutdownWanted{});
  EXPECT_TRUE(AwaitEnd().ok());  // before the record
}

TEST_F(AgentLeaseTest, AnAnswerThatIsNotACoordinatorsIsNoReasonToEnd) {
  coordinator_.RefuseRegistrations(absl::UnimplementedError("404"));
  Run();
  coordinator_.AwaitRegistrationsRefused(3);
  coordinator_.RefuseRegistrations(absl::OkStatus());
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(AgentLeaseTest, ARegistrationThatIsRefusedEndsTheDaemonWithTheReason) {
  coordinator_.RefuseRegistrations(absl::InvalidArgumentError("bad name"));
  Run();
  EXPECT_THAT(std::string(AwaitEnd().message()), HasSubstr("bad name"));
}

TEST_F(AgentLeaseTest, WhereTheCoordinatorIsIsLookedUpAgainInEachOfItsLives) {
  BoundedQueue<bool> looked_up(10);
  ListenerProbe probe("c:1", [&](const std::string&) {
    bool asked = true;
    looked_up.TryPush(asked);
    return ListenerProbe::Addresses();
  });
  looked_up.DrainFor(absl::Seconds(20));  // at its start
  probe_ = &probe;
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_FALSE(looked_up.DrainFor(absl::Seconds(20)).empty());
  coordinator_.Restart();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_FALSE(looked_up.DrainFor(absl::Seconds(20)).empty());
  events_.Tell(ShutdownWanted{});
  EXPECT_TRUE(AwaitEnd().ok());  // before the probe
}

}  // namespace
}  // namespace dp::worker
