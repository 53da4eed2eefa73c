#include "worker/agent/agent.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/security/credential.h"
#include "base/testing/settable_clock.h"
#include "worker/agent/testing/agent_fixture.h"

namespace dp::worker {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::MatchesRegex;

using AgentTest = AgentFixture;

TEST_F(AgentTest, ARankRunsToItsEnd) {
  RunRankZero();
  std::ofstream(spool_.path(v1::LOG_STREAM_STDERR)) << "no data\n";
  End(0, 3);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 3: no data");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDERR, "no data\n"), "no data\n");
}

class RankCredentialTest : public AgentFixture {
 protected:
  RankCredentialTest() {
    credential_dir_ = directory_.path() + "/credential";
    rank_.set_token("rank's token");
    rank_.mutable_spec()->mutable_train();
  }
  std::string ranks_dir() const { return spool_.credential_dir(); }
  static std::filesystem::perms ModeOf(const std::string& path) {
    return std::filesystem::status(path).permissions();
  }

  v1::AssignedRank rank_ = ARank(0);
};

TEST_F(RankCredentialTest, ARankGetsItsTokenAndTheDaemonsAuthoritiesButNotItsKey) {
  using std::filesystem::perms;
  ASSERT_TRUE(security::WriteCredential(credential_dir_,
                                        {.authorities = "CA", .chain = "CHAIN", .key = "KEY"})
                  .ok());
  RunRankZero(rank_);
  const auto credential = security::ReadCredential(ranks_dir());
  ASSERT_TRUE(credential.ok()) << credential.status();
  EXPECT_EQ(credential->authorities + " " + credential->token, "CA rank's token");
  EXPECT_EQ(credential->chain + credential->key, "");
  EXPECT_EQ(ModeOf(ranks_dir() + "/token"), perms::owner_read | perms::owner_write);
  EXPECT_EQ(ModeOf(ranks_dir()), perms::owner_all);
  EXPECT_THAT(runner_.command().environment, Contains("DP_CREDENTIALS=" + ranks_dir()));
}

TEST_F(RankCredentialTest, ItGoesWithTheRanksOtherFiles) {
  ASSERT_TRUE(security::WriteCredential(credential_dir_, {.authorities = "CA"}).ok());
  RunRankZero(rank_);
  ASSERT_TRUE(std::filesystem::exists(ranks_dir()));
  coordinator_.Assign({});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  AwaitRemoved(ranks_dir());
}

TEST_F(RankCredentialTest, WithoutTheDaemonsAuthoritiesTheRankIsNotStarted) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({rank_});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("there is no credential in " + credential_dir_));
}

TEST_F(RankCredentialTest, ARankOfADaemonInPlainTextNeedsNone) {
  credential_dir_ = "";
  RunRankZero(rank_);
  EXPECT_FALSE(std::filesystem::exists(ranks_dir()));
}

class CountingClock final : public Clock {
 public:
  absl::Time Now() const override {
    ++asked_;
    return Clock::System().Now();
  }
  int64_t asked() const { return asked_; }

 private:
  mutable std::atomic<int64_t> asked_ = 0;
};

// Each turn of the agent's loop reads the clock; a loop that does not sleep reads it 100,000 times.
TEST_F(AgentTest, ItSleepsBetweenEvents) {
  constexpr int kHeartbeats = 10;
  const CountingClock clock;
  clock_ = &clock;
  RunRankZero();
  const int64_t before = clock.asked();
  for (int number = 1; number <= kHeartbeats; ++number) {
    coordinator_.OfferLease(absl::Milliseconds(80), number);
    EXPECT_TRUE(coordinator_.AwaitLease(number));
  }
  EXPECT_LT(clock.asked() - before, 100 * kHeartbeats);
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_EQ(AwaitEnd(), absl::OkStatus());  // the agent reads the clock until it ends
}

class OutOfMemoryTest : public AgentFixture {
 protected:
  // `oom`: the count of the rank's cgroup, if the rank has one.
  void EndByKill(std::optional<bool> oom = std::nullopt) {
    runner_.Tell(0, ProcessExited{{Exit::How::kSignal, SIGKILL}, oom});
    runner_.Tell(0, ProcessGone{});
  }
};

TEST_F(OutOfMemoryTest, ARankThatIsKilledRanOutOfMemoryWhereTheHostCountedAKillSinceItsStart) {
  oom_kills_ = 3;  // before its start
  RunRankZero();
  oom_kills_ = 4;
  EndByKill();
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited signal 9 out of memory");
}

TEST_F(OutOfMemoryTest,
       ARankThatIsKilledDidNotRunOutOfMemoryWhereTheHostCountedNoKillSinceItsStart) {
  oom_kills_ = 3;
  RunRankZero();
  EndByKill();
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited signal 9");
}

TEST_F(OutOfMemoryTest, AnExitCodeIsNoLackOfMemoryWhateverTheHostCounted) {
  RunRankZero();
  oom_kills_ = 1;
  End(0, 3);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 3");
}

TEST_F(OutOfMemoryTest, WhatTheCgroupCountedDecidesAndNotTheHost) {
  RunRankZero();
  oom_kills_ = 1;
  EndByKill(/*oom=*/false);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited signal 9");
}

TEST_F(AgentTest, TheServiceManagerHearsOfLifeTheRegistrationAndTheEnd) {
  RunRankZero();
  mailbox_.Tell(ShutdownWanted{});
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

TEST_F(AgentTest, ARankThatFindsNoTorchIsReportedWithItsPythonAndTheRemedy) {
  RunRankZero();
  std::ofstream(spool_.path(v1::LOG_STREAM_STDERR))
      << "ModuleNotFoundError: No module named 'torch'\n";
  End(0, 1);
  EXPECT_THAT(coordinator_.NextHeard(),
              HasSubstr("rank 0 exited code 1: dp: the Python that /trainer ran has no module"));
}

TEST_F(AgentTest, AHostThatCannotWriteASpoolDeclinesTheRankAndOffersNoSlotUntilItCan) {
  const std::string obstacle = directory_.path() + "/spool";
  std::ofstream(obstacle) << "in the way";
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_THAT(coordinator_.NextHeard(), MatchesRegex("slots 1, 0: spool .*, 1: spool .*"));
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("rank 0 exited error: spool "));
  EXPECT_TRUE(coordinator_.stopped(0));  // by its host
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  std::filesystem::remove(obstacle);
  EXPECT_EQ(coordinator_.NextHeard(), "slots 2");
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

TEST_F(AgentTest, ARankIsReleasedWithoutItsLogsWhereTheCoordinatorHasNoRoomForThem) {
  const SettableClock clock;  // constant, so patience with logs never ends
  clock_ = &clock;
  RunRankZero();
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("no room"));
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "line\n";
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0: line");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_EQ(coordinator_.log(v1::LOG_STREAM_STDOUT), "");
  mailbox_.Tell(ShutdownWanted{});
  mailbox_.Tell(ShutdownWanted{});  // an unreleased rank would keep the agent running for ever
  EXPECT_TRUE(AwaitEnd().ok());     // before the clock is destroyed
}

TEST_F(AgentTest, WhatAnEarlierLifeLeftIsSentAndThenRemoved) {
  ASSERT_TRUE(spool_.Create({absl::FromUnixSeconds(100)}).ok());
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "line\nend";
  Run();
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "line\nend"), "line\nend");
  EXPECT_EQ(coordinator_.submitted_at(), absl::FromUnixSeconds(100));
  AwaitRemovedSpool();
}

TEST_F(AgentTest, ARankTakesThePlaceOfOneOfTheSameNameThatAnEarlierLifeLeft) {
  coordinator_.RefuseLogs(absl::ResourceExhaustedError("no room"));
  ASSERT_TRUE(spool_.Create({absl::FromUnixSeconds(100)}).ok());
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "of another job\n";
  RunRankZero();
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT), std::ios::app) << "mine\n";
  coordinator_.RefuseLogs(absl::OkStatus());
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "mine\n"), "mine\n");
}

TEST_F(AgentTest, AShutdownStopsRanksAndReportsThem) {
  RunRankZero(APatientRank(0));
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  End(0, 0);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_TRUE(AwaitEnd().ok());
  EXPECT_FALSE(std::filesystem::exists(spool_.path(v1::LOG_STREAM_STDOUT)));
}

TEST_F(AgentTest, AShutdownKillsARankWhoseGraceIsOver) {
  RunRankZero();
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited signal 9");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_TRUE(AwaitEnd().ok());
}

TEST_F(AgentTest, AShutdownIsToldAtOnceAndItsRanksAreReportedAsStopped) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  const v1::AssignedRank patient = APatientRank(0);
  coordinator_.Assign({patient});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_TRUE(coordinator_.AwaitLeaving());
  coordinator_.Assign({patient, ARank(1)});  // placed before the coordinator heard of the shutdown
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
  mailbox_.Tell(ShutdownWanted{});
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
  const v1::AssignedRank patient = APatientRank(0);
  coordinator_.Assign({patient});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  EXPECT_TRUE(AwaitEnd().ok());
}

TEST_F(AgentTest, AShutdownDoesNotWaitForACoordinatorThatIsAway) {
  RunRankZero();
  coordinator_.SetReachable(false);
  mailbox_.Tell(ShutdownWanted{});
  EXPECT_EQ(runner_.NextOrder(), "terminate 0");
  End(0, 0);
  EXPECT_TRUE(AwaitEnd().ok());
}

TEST_F(AgentTest, OfTooManyLeftOversTheOldestGo) {
  const LogSpool next(directory_.path(), {JobId(2), Generation(1), 0});
  for (const LogSpool* spool : {&spool_, &next}) {
    ASSERT_TRUE(spool->Create({absl::FromUnixSeconds(100)}).ok());
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
