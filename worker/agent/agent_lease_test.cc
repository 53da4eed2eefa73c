// A daemon and its coordinator: registration, leases, absences, and names that another daemon
// holds.

#include <fstream>

#include "absl/strings/match.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/testing/agent_fixture.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

using AgentLeaseTest = AgentFixture;

// The silence of the daemon that holds the name, by listing. It grows until a heartbeat resets it.
int BeatingHolder(int listing) { return 1 + listing % 2; }
int DeadHolder(int listing) { return listing; }

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

TEST_F(AgentLeaseTest, ADaemonWhoseCertificateIsRevokedKillsItsRanks) {
  RunRankZero();
  coordinator_.RevokeWorker();
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
}

// The new coordinator's versions begin below those that the daemon has seen.
TEST_F(AgentLeaseTest, ACoordinatorThatIsSetUpAnewIsWatchedFromItsFirstVersionOn) {
  RunRankZero();
  coordinator_.Assign({ARank(0)}), coordinator_.Assign({ARank(0)});
  coordinator_.SetUpAnew();
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
  coordinator_.Assign({ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "start 1");
}

TEST_F(AgentLeaseTest, AnAssignmentOfAnOlderCopyIsCarriedOut) {
  RunRankZero();
  coordinator_.Assign({ARank(0), ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "start 1");
  coordinator_.GoOnFromACopy({ARank(0)});
  EXPECT_EQ(runner_.NextOrder(), "kill 1");
}

TEST_F(AgentLeaseTest, ADaemonWhoseNameIsTakenOverKillsItsRanksAndWaitsForTheName) {
  Run("gpu-a");
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  coordinator_.HoldName("gpu-a", BeatingHolder);
  coordinator_.LoseWorker();
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  coordinator_.AwaitListings(4);
  coordinator_.FreeName();
  EXPECT_EQ(coordinator_.NextHeard(), "register b");
}

struct Holder {
  const char* name;
  int (*silence)(int listing);
  bool live;  // its heartbeats prove that the daemon runs
};

class TakenNameTest : public AgentFixture, public testing::WithParamInterface<Holder> {};

// The holder may be this daemon's previous incarnation, whose lease expires, or a daemon that its
// owner stops.
TEST_P(TakenNameTest, ADaemonWhoseNameIsTakenAsksUntilItIsFree) {
  testing::internal::CaptureStderr();
  coordinator_.HoldName("gpu-a", GetParam().silence);
  Run("gpu-a");
  coordinator_.AwaitListings(6);
  coordinator_.FreeName();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=name_taken"));
  EXPECT_EQ(absl::StrContains(log, "event=name_of_a_live_daemon"), GetParam().live) << log;
}

// After a pause of the coordinator, a dead daemon looks as if it had sent one heartbeat. A
// restarted coordinator counts silence from 0.
INSTANTIATE_TEST_SUITE_P(
    Holders, TakenNameTest,
    testing::Values(
        Holder{"beating", BeatingHolder, true}, Holder{"dead", DeadHolder, false},
        Holder{"stood_still", [](int listing) { return listing == 2 ? 1 : listing + 1; }, false},
        Holder{"restarted", [](int listing) { return listing % 2 == 0 ? 0 : listing; }, false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(AgentLeaseTest, ADaemonWhoseNameIsTakenGoesOnWhereNobodyIsListed) {
  coordinator_.RefuseListings(absl::UnavailableError("away"));
  coordinator_.HoldName("gpu-a", DeadHolder);
  Run("gpu-a");
  coordinator_.AwaitListings(2);
  coordinator_.FreeName();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(AgentLeaseTest, ADaemonNamesThoseBeforeItAsDeadOnceNothingIsLeftOfTheirRanks) {
  IncarnationRecord before(directory_.path(), "boot");
  ASSERT_TRUE(before.Add(Incarnation(7)).ok());
  ASSERT_TRUE(before.Add(Incarnation(8)).ok());
  IncarnationRecord record(directory_.path(), "boot");
  incarnations_ = &record;
  coordinator_.HoldName("gpu-a", DeadHolder);
  Run("gpu-a");
  coordinator_.AwaitListings(2);
  EXPECT_THAT(coordinator_.replaced(), testing::IsEmpty());
  earlier_gone_ = true;
  EXPECT_THAT(coordinator_.AwaitReplaced(2), testing::ElementsAre(7, 8));
  coordinator_.FreeName();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_EQ(IncarnationRecord(directory_.path(), "boot").recorded().size(), 3u);
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_TRUE(AwaitEnd().ok());  // before the record is destroyed
}

class EarlierExitTest : public AgentFixture {
 protected:
  // Rank 0 exited under a daemon that then died.
  EarlierExitTest() {
    EXPECT_TRUE(spool_.Create({absl::FromUnixSeconds(100), {5, Incarnation(8)}}).ok());
    WriteExitRecord(spool_.exit_file(), {.exit = {Exit::How::kCode, 3}});
    earlier_gone_ = true;
  }
};

TEST_F(EarlierExitTest, ItIsReportedBeforeTheDaemonRegisters) {
  coordinator_.GiveLease(Incarnation(8));
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 3");
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(EarlierExitTest, TheDaemonDoesNotRegisterUntilTheCoordinatorHasAnsweredIt) {
  coordinator_.GiveLease(Incarnation(8));
  coordinator_.LoseReports(2);
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 3");
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(EarlierExitTest, ACoordinatorThatHasLostThatDaemonRefusesItAndTheDaemonRegisters) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(EarlierExitTest, ItIsReportedOnceHoweverLongTheDaemonWaitsForItsName) {
  earlier_gone_ = false;  // exits of other ranks may follow
  coordinator_.GiveLease(Incarnation(8));
  coordinator_.HoldName("gpu-a", DeadHolder);
  Run("gpu-a");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 3");
  coordinator_.AwaitListings(3);
  coordinator_.FreeName();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
}

TEST_F(AgentLeaseTest, AnExitThatTheCoordinatorKnowsIsRecordedNoLonger) {
  RunRankZero();
  WriteExitRecord(spool_.exit_file(), {});
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_EQ(ReadExitRecord(spool_.exit_file()), std::nullopt);
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
  looked_up.DrainFor(absl::Seconds(20));  // the probe's first look-up
  probe_ = &probe;
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_FALSE(looked_up.DrainFor(absl::Seconds(20)).empty());
  coordinator_.Restart();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  EXPECT_FALSE(looked_up.DrainFor(absl::Seconds(20)).empty());
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_TRUE(AwaitEnd().ok());  // before the probe is destroyed
}

}  // namespace
}  // namespace dp::worker
