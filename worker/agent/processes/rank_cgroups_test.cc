#include "worker/agent/processes/rank_cgroups.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/bounded_queue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/processes/cgroup.h"
#include "worker/agent/processes/guarded_runner.h"
#include "worker/agent/processes/process_tree.h"
#include "worker/agent/testing/fifo.h"
#include "worker/agent/testing/own_cgroup.h"
#include "worker/agent/testing/process_state.h"
#include "worker/agent/testing/ticking_clock.h"
#include "worker/agent/testing/tracer.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const RankKey kKey{JobId(7), Generation(1), 0};
constexpr int kOrders = 50;

std::vector<std::string> Below(const std::string& dir) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.is_directory()) found.push_back(entry.path().filename());
  }
  return found;
}

// Ranks in real cgroups, in each hierarchy that ranks can use.
class RankCgroupsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (own_.dir().empty()) GTEST_SKIP() << "no cgroup of " << GetParam() << " can be made here";
    auto cgroups = RankCgroups::Open({{GetParam(), own_.dir()}}, RankCgroups::Claim::kAny);
    ASSERT_TRUE(cgroups.ok()) << cgroups.status();
    cgroups_ = *std::move(cgroups);
    runner_ = std::make_unique<GuardedRunner>(
        DP_GUARD, [this](ProcessNews news) { news_.TryPush(news); }, 1024, cgroups_.get());
  }
  // The runner waits for its guards, so those that a failed test left waiting must be killed first.
  void TearDown() override {
    if (HasFailure()) {
      for (const pid_t child : Children(getpid())) kill(child, SIGKILL);
    }
    runner_.reset();
    cgroups_.reset();
  }

  void Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DP_RANK_STUB);
    runner_->Start(kKey, {.argv = std::move(arguments),
                          .environment = {},
                          .stdout_path = "/dev/null",
                          .stderr_path = "/dev/null"});
  }
  void StartStubborn() {
    Start({"stubborn", fifo_.path()});
    ASSERT_TRUE(Await<ProcessStarted>());
    ASSERT_EQ(fifo_.Read(), "ready\n");
  }
  // Waits for this kind of news; false on timeout.
  template <typename News>
  bool Await() {
    for (;;) {
      const auto news = news_.DrainFor(absl::Seconds(20));
      if (news.empty()) return false;
      for (const ProcessNews& each : news) {
        if (std::holds_alternative<News>(each.what)) return true;
      }
    }
  }
  // Waits until nothing is left of the rank; false on timeout.
  bool AwaitGone() { return Await<ProcessGone>(); }
  std::string RankCgroup() const { return cgroups_->dir() + "/rank-7.1.0"; }

  OwnCgroup own_{GetParam()};
  TemporaryDirectory directory_;
  Fifo fifo_{directory_.path() + "/fifo"};
  BoundedQueue<ProcessNews> news_{100};
  std::unique_ptr<RankCgroups> cgroups_;
  std::unique_ptr<GuardedRunner> runner_;
};

TEST_P(RankCgroupsTest, ARankAndAllThatItForksAreInItsCgroupAndItsGuardIsNot) {
  StartStubborn();
  const std::string listed = absl::StrCat(RankCgroup(), "/cgroup.procs");
  std::ifstream file(listed);
  const std::vector<pid_t> in_cgroup{std::istream_iterator<pid_t>(file), {}};
  EXPECT_THAT(in_cgroup, testing::UnorderedElementsAreArray(Descendants(OnlyChild())));
  EXPECT_THAT(in_cgroup, SizeIs(3));
}

// A file of cgroup v2 counts as changed until it is read. A guard that polled such a file without
// reading it would never sleep.
TEST_P(RankCgroupsTest, AGuardSleepsWhileItsRankDoes) {
  if (!CallsAreShown()) GTEST_SKIP() << "no process may be traced here";
  StartStubborn();
  const pid_t guard = OnlyChild();
  const auto waits_for_an_event = [&] { return TimeoutOfPoll(guard) == -1; };
  ASSERT_TRUE(Eventually(waits_for_an_event));
  const int64_t before = TimesAsleep(guard);
  for (int order = 0; order < kOrders; ++order) {
    runner_->Terminate(kKey);  // ignored by the rank
    ASSERT_TRUE(Eventually([&] { return TimesAsleep(guard) > before + order; }));
  }
  EXPECT_TRUE(Eventually(waits_for_an_event));
  EXPECT_LE(TimesAsleep(guard), before + 2 * kOrders);
}

TEST_P(RankCgroupsTest, AGuardSleepsBetweenItsAttemptsToKillWhatDoesNotDie) {
  if (!CallsAreShown()) GTEST_SKIP() << "no process may be traced here";
  Start({"wait", fifo_.path()});
  ASSERT_EQ(fifo_.Read(), "ready\n");
  const pid_t guard = OnlyChild();
  const std::vector<pid_t> ranks = Children(guard);
  ASSERT_THAT(ranks, SizeIs(1));
  Tracer tracer(ranks.front());
  if (!tracer.attached()) GTEST_SKIP() << "no process may be traced here";
  runner_->Kill(kKey);
  ASSERT_EQ(fifo_.Read(), "");  // dead, but not gone
  EXPECT_TRUE(Eventually([&] { return TimeoutOfPoll(guard) > 0; }));
  tracer.LetGo();
  EXPECT_TRUE(AwaitGone());
}

TEST_P(RankCgroupsTest, AKillEndsEveryDescendantAndRemovesTheCgroup) {
  StartStubborn();
  runner_->Kill(kKey);
  EXPECT_TRUE(AwaitGone());
  EXPECT_EQ(fifo_.Read(), "");
  EXPECT_THAT(Below(cgroups_->dir()), testing::ElementsAre("daemon"));
}

TEST_P(RankCgroupsTest, ARankThatHasLeftItsCgroupIsKilledAllTheSame) {
  Start({"escape", cgroups_->dir() + "/daemon", fifo_.path()});
  ASSERT_EQ(fifo_.Read(), "ready\n");
  EXPECT_FALSE(CgroupWatch(RankCgroup()).Populated());
  runner_->Kill(kKey);
  EXPECT_TRUE(AwaitGone());
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_P(RankCgroupsTest, ARankIsNotGoneWhileSomethingElseIsInItsCgroupWhichIsKilledToo) {
  Start({"wait", fifo_.path()});
  ASSERT_EQ(fifo_.Read(), "ready\n");
  Fifo stranger(directory_.path() + "/stranger");
  pid_t pid = fork();
  if (pid == 0) {
    JoinCgroup(RankCgroup());
    execl(DP_RANK_STUB, DP_RANK_STUB, "wait", stranger.path().c_str(), nullptr);
    _exit(127);
  }
  ASSERT_EQ(stranger.Read(), "ready\n");
  runner_->Terminate(kKey);
  EXPECT_TRUE(AwaitGone());
  EXPECT_EQ(stranger.Read(), "");
  waitpid(pid, nullptr, 0);
}

TEST_P(RankCgroupsTest, AKilledGuardTakesAllOfItsRankAlong) {
  StartStubborn();
  kill(OnlyChild(), SIGKILL);
  EXPECT_TRUE(AwaitGone());
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_P(RankCgroupsTest, AtItsEndTheDaemonIsBackWhereItWasAndNothingIsLeft) {
  const std::string before = own_.dir();
  StartStubborn();
  runner_.reset();
  cgroups_.reset();
  EXPECT_EQ(fifo_.Read(), "");
  EXPECT_THAT(Below(own_.dir()), IsEmpty());
  EXPECT_EQ(OwnCgroupPaths()[GetParam()], before);
}

TEST_P(RankCgroupsTest, TheNextDaemonSparesThoseOfOneThatLives) {
  Start({"wait", fifo_.path()});
  ASSERT_EQ(fifo_.Read(), "ready\n");
  StaleCgroups().End(own_.dir());
  EXPECT_THAT(Below(cgroups_->dir()), SizeIs(2));
  EXPECT_TRUE(CgroupWatch(RankCgroup()).Populated());
}

INSTANTIATE_TEST_SUITE_P(Hierarchies, RankCgroupsTest,
                         testing::Values(kCgroup2, "freezer", "name=systemd"),
                         [](const auto& info) {
                           return info.param == "name=systemd" ? "named" : info.param;
                         });

// A hybrid host: v2 kills, v1 limits memory.
class MemoryLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    if (own_.dir().empty() || memory_.dir().empty()) {
      GTEST_SKIP() << "no cgroup of v2 beside one of v1's memory can be made here";
    }
    auto cgroups = RankCgroups::Open({{kCgroup2, own_.dir()}, {"memory", memory_.dir()}},
                                     RankCgroups::Claim::kAny);
    ASSERT_TRUE(cgroups.ok()) << cgroups.status();
    cgroups_ = *std::move(cgroups);
    ASSERT_EQ(cgroups_->memory(), "memory");
  }

  // How a rank exits that allocates so much memory under a limit of 64 MiB.
  ProcessExited Take(const std::string& mib) {
    BoundedQueue<ProcessNews> news(100);
    GuardedRunner runner(
        DP_GUARD, [&](ProcessNews each) { news.TryPush(each); }, 1024, cgroups_.get());
    runner.Start(kKey, {.argv = {DP_RANK_STUB, "take", mib},
                        .environment = {},
                        .stdout_path = "/dev/null",
                        .stderr_path = "/dev/null",
                        .memory_bytes = 64 << 20});
    for (;;) {
      const auto arrived = news.DrainFor(absl::Seconds(20));
      if (arrived.empty()) return {};
      for (const ProcessNews& each : arrived) {
        if (const auto* exited = std::get_if<ProcessExited>(&each.what)) return *exited;
      }
    }
  }

  OwnCgroup own_{kCgroup2};
  OwnCgroup memory_{"memory"};
  std::unique_ptr<RankCgroups> cgroups_;
};

TEST_F(MemoryLimitTest, ARankThatTakesMoreIsKilledAndItIsKnownWhatFor) {
  const ProcessExited end = Take("200");
  EXPECT_EQ(end.exit, (Exit{Exit::How::kSignal, SIGKILL}));
  EXPECT_EQ(end.oom, true);
  EXPECT_THAT(Below(memory_.dir()), SizeIs(1));  // the rank's own cgroup is removed
}

TEST_F(MemoryLimitTest, OneThatDoesNotEndsInPeace) {
  const ProcessExited end = Take("8");
  EXPECT_EQ(end.exit, (Exit{Exit::How::kCode, 0}));
  EXPECT_EQ(end.oom, false);
}

TEST(StaleCgroupTest, WhatADaemonThatWasKilledTogetherWithItsGuardsLeftIsEnded) {
  const OwnCgroup own(kCgroup2);
  if (own.dir().empty()) GTEST_SKIP() << "no cgroup of v2 can be made here";
  TemporaryDirectory directory;
  Fifo fifo(directory.path() + "/fifo");
  const char* argv[] = {DP_RUNNER_HOST,      DP_GUARD, own.dir().c_str(), DP_RANK_STUB, "stubborn",
                        fifo.path().c_str(), nullptr};
  pid_t host = 0;
  ASSERT_EQ(posix_spawn(&host, DP_RUNNER_HOST, nullptr, nullptr, const_cast<char**>(argv), nullptr),
            0);
  ASSERT_EQ(fifo.Read(), "ready\n");
  const std::vector<pid_t> guards = Children(host);
  ASSERT_THAT(guards, SizeIs(1));
  kill(guards.front(), SIGSTOP);  // before it can act
  kill(host, SIGKILL);
  kill(guards.front(), SIGKILL);
  waitpid(host, nullptr, 0);
  EXPECT_TRUE(CgroupWatch(own.dir()).Populated());  // at least the grandchild is in it
  StaleCgroups stale;
  stale.End(own.dir());
  EXPECT_TRUE(stale.Gone());
  EXPECT_EQ(fifo.Read(), "");
  EXPECT_THAT(Below(own.dir()), IsEmpty());
}

// Files show a cgroup in which a process hangs in the kernel.
TEST(StaleCgroupTest, ADaemonIsNotGoneWhileAProcessOfItDoesNotDie) {
  const TemporaryDirectory directory;
  const std::string cgroup = directory.path() + "/dp-worker.Xk2p4q";
  std::filesystem::create_directory(cgroup);
  std::ofstream(cgroup + "/cgroup.kill").close();
  std::ofstream(cgroup + "/cgroup.events") << "populated 1\n";
  const TickingClock clock;
  StaleCgroups stale(clock);
  EXPECT_TRUE(stale.Gone());
  stale.End(directory.path());
  EXPECT_FALSE(stale.Gone());
  std::ofstream(cgroup + "/cgroup.events") << "populated 0\n";
  EXPECT_TRUE(stale.Gone());
}

TEST(RankCgroupsOpenTest, WhereTheDaemonCannotMoveInNoneIsUsed) {
  const TemporaryDirectory no_cgroup;
  const auto cgroups = RankCgroups::Open({{kCgroup2, no_cgroup.path()}}, RankCgroups::Claim::kAny);
  EXPECT_THAT(std::string(cgroups.status().message()), HasSubstr("/daemon: No such file"));
}

TEST(RankCgroupsOpenTest, WhereNoneMayBeMadeTheReasonOfEachIsTold) {
  const auto cgroups = RankCgroups::Open(
      {{kCgroup2, "/nowhere/v2"}, {"freezer", "/nowhere/freezer"}, {"memory", "/m"}},
      RankCgroups::Claim::kAny);
  EXPECT_THAT(std::string(cgroups.status().message()), HasSubstr("/nowhere/v2: No such file"));
  EXPECT_THAT(std::string(cgroups.status().message()), HasSubstr("/nowhere/freezer: No such file"));
}

}  // namespace
}  // namespace dp::worker
