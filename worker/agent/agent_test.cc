#include "worker/agent/agent.h"

#include <filesystem>
#include <fstream>

#include "worker/agent/testing/agent_fixture.h"

namespace dp::worker {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;

using AgentTest = AgentFixture;

TEST_F(AgentTest, ARankRunsToItsEnd) {
  RunRankZero();
  std::ofstream(spool_.path(v1::LOG_STREAM_STDERR)) << "no data\n";
  End(0, 3);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 3: no data");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDERR, "no data\n"), "no data\n");
}

TEST_F(AgentTest, TheServiceManagerHearsOfLifeTheRegistrationAndTheEnd) {
  RunRankZero();
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  EXPECT_EQ(manager_.Await(), "STATUS=registered as host");
  EXPECT_EQ(manager_.Await(), "WATCHDOG=1");
  EXPECT_EQ(manager_.Await(), "STOPPING=1");
}

TEST_F(AgentTest, RanksAreToldTheNameAndAddressThatWereRegistered) {
  RunRankZero();
  EXPECT_THAT(runner_.command().environment, Contains("DP_WORKER=host"));
  EXPECT_THAT(runner_.command().environment, Contains("DP_ADDRESS=10.0.0.9"));
}

TEST_F(AgentTest, ARankThatCannotBeStartedIsReportedWithTheReason) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  runner_.Tell(0, ProcessNotStarted{"no such program"});
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited error: no such program");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

TEST_F(AgentTest, ASpoolThatCannotBeMadeIsAStartThatFailed) {
  std::ofstream(directory_.path() + "/spool") << "in the way";
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("rank 0 exited error: spool "));
}

TEST_F(AgentTest, AStoppedRankIsTerminatedAndThenKilled) {
  RunRankZero();
  coordinator_.Assign({ARank(0, /*stop=*/true)});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited signal 9");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
}

TEST_F(AgentTest, ARankThatIsNoLongerAssignedIsKilledAndItsSpoolRemoved) {
  RunRankZero();
  coordinator_.Assign({});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  AwaitRemovedSpool();
}

TEST_F(AgentTest, WhatARankWroteThatIsNoLongerAssignedIsSentAllTheSame) {
  RunRankZero();
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("no room"));
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "line\n";
  coordinator_.AwaitRefusals(1);
  coordinator_.Assign({});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  coordinator_.AwaitRefusals(2);
  coordinator_.RefuseLogs(absl::OkStatus());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "line\n"), "line\n");
  AwaitRemovedSpool();
}

TEST_F(AgentTest, WhatAnEarlierLifeLeftIsSentAndThenRemoved) {
  ASSERT_TRUE(spool_.Create(absl::FromUnixSeconds(100)).ok());
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "line\nend";
  Run();
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "line\nend"), "line\nend");
  EXPECT_EQ(coordinator_.submitted_at(), absl::FromUnixSeconds(100));
  AwaitRemovedSpool();
}

TEST_F(AgentTest, ARankTakesThePlaceOfOneOfTheSameNameThatAnEarlierLifeLeft) {
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("no room"));
  ASSERT_TRUE(spool_.Create(absl::FromUnixSeconds(100)).ok());
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "of another job\n";
  RunRankZero();
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT), std::ios::app) << "mine\n";
  coordinator_.RefuseLogs(absl::OkStatus());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "mine\n"), "mine\n");
}

TEST_F(AgentTest, AShutdownStopsRanksAndReportsThem) {
  RunRankZero();
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  End(0, 0);
  EXPECT_THAT(coordinator_.NextHeard(),
              AnyOf("rank 0 exited code 0", "rank 0 exited signal 9"));  // the grace is short
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_TRUE(AwaitEnd().ok());
  EXPECT_FALSE(std::filesystem::exists(spool_.path(v1::LOG_STREAM_STDOUT)));
}

TEST_F(AgentTest, AShutdownIsToldAtOnceAndItsRanksAreReportedAsStopped) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  v1::AssignedRank patient = ARank(0);
  patient.mutable_spec()->mutable_grace()->set_seconds(3600);
  coordinator_.Assign({patient});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  events_.Tell(ShutdownWanted{});
  EXPECT_TRUE(coordinator_.AwaitLeaving());
  coordinator_.Assign({patient, ARank(1)});  // placed before that was heard
  EXPECT_EQ(coordinator_.NextHeard(), "rank 1 exited error: the worker is shutting down");
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  End(0, 1);
  EXPECT_TRUE(AwaitEnd().ok());
  EXPECT_TRUE(coordinator_.stopped(0));
  EXPECT_TRUE(coordinator_.stopped(1));
}

TEST_F(AgentTest, AnIdleDaemonThatIsShutDownSaysSoBeforeItEnds) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  events_.Tell(ShutdownWanted{});
  EXPECT_TRUE(AwaitEnd().ok());
  EXPECT_TRUE(coordinator_.leaving());
}

TEST_F(AgentTest, ARankThatEndsByItselfIsNotReportedAsStopped) {
  RunRankZero();
  End(0, 1);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 1");
  EXPECT_FALSE(coordinator_.stopped(0));
}

TEST_F(AgentTest, LogLinesNameJobGenerationAndRankEach) {
  testing::internal::CaptureStderr();
  RunRankZero();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("event=rank_started job=1 generation=1 rank=0 pid=100"));
}

TEST_F(AgentTest, ASecondShutdownKillsAtOnce) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  v1::AssignedRank patient = ARank(0);
  patient.mutable_spec()->mutable_grace()->set_seconds(3600);
  coordinator_.Assign({patient});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_TRUE(AwaitEnd().ok());
}

TEST_F(AgentTest, AShutdownDoesNotWaitForACoordinatorThatIsAway) {
  RunRankZero();
  coordinator_.SetReachable(false);
  events_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  End(0, 0);
  EXPECT_TRUE(AwaitEnd().ok());
}

TEST_F(AgentTest, OfTooManyLeftOversTheOldestGo) {
  const LogSpool next(directory_.path(), {JobId(2), Generation(1), 0});
  for (const LogSpool* spool : {&spool_, &next}) {
    ASSERT_TRUE(spool->Create(absl::FromUnixSeconds(100)).ok());
    std::ofstream(spool->path(v1::LOG_STREAM_STDOUT)) << "line\n";
  }
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("the disk is full"));
  left_overs_max_ = 1;
  Run();
  coordinator_.AwaitRefusals(1);
  EXPECT_FALSE(std::filesystem::exists(spool_.path(v1::LOG_STREAM_STDOUT)));
  EXPECT_TRUE(std::filesystem::exists(next.path(v1::LOG_STREAM_STDOUT)));
}

}  // namespace
}  // namespace dp::worker
