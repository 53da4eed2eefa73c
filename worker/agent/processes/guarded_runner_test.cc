#include "worker/agent/processes/guarded_runner.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/processes/guard_lock.h"
#include "worker/agent/processes/process_tree.h"
#include "worker/agent/testing/fifo.h"
#include "worker/agent/testing/process_news.h"
#include "worker/agent/testing/process_state.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

class GuardedRunnerTest : public testing::Test {
 protected:
  // The runner waits for its guards. A guard that a failed test left stopped kills its rank only
  // once it runs again.
  void TearDown() override {
    if (!HasFailure()) return;
    for (const pid_t guard : Children(getpid())) kill(guard, SIGCONT);
  }

  // Runs the stub with a real guard.
  void Start(std::vector<std::string> arguments, std::string program = DP_RANK_STUB) {
    arguments.insert(arguments.begin(), std::move(program));
    runner_.Start(key_, {.argv = std::move(arguments),
                         .environment = {"COLOUR=blue"},
                         .stdout_path = directory_.path() + "/out",
                         .stderr_path = directory_.path() + "/err",
                         .exit_path = exit_path_});
  }

  std::string Next() {
    const std::optional<ProcessNews> news = news_.Next();
    if (!news) return "timeout";
    if (const auto* started = std::get_if<ProcessStarted>(&news->what)) pid_ = started->pid;
    return Describe(*news);
  }

  static void Stop(pid_t pid) {
    kill(pid, SIGSTOP);
    ASSERT_TRUE(Eventually([pid] { return IsStopped(pid); }));
  }

  std::string Output() const {
    std::ifstream file(directory_.path() + "/out");
    return (std::stringstream() << file.rdbuf()).str();
  }

  const RankKey key_{JobId(1), Generation(1), 0};
  TemporaryDirectory directory_;
  const std::string exit_path_ = directory_.path() + "/exit";
  Fifo fifo_{directory_.path() + "/fifo"};
  NewsInTurn news_;
  pid_t pid_ = 0;
  GuardedRunner runner_{DP_GUARD, news_.Sink()};
};

TEST_F(GuardedRunnerTest, AnExitCodeIsReported) {
  Start({"exit", "7"});
  EXPECT_EQ(Next(), "started");
  EXPECT_EQ(Next(), "code 7");
  EXPECT_EQ(Next(), "gone");
}

TEST_F(GuardedRunnerTest, AProgramThatIsNotAllowedIsReportedWithTheRemedy) {
  runner_.Start(key_, {.argv = {"sh"},
                       .environment = {"PATH=/bin"},
                       .stdout_path = directory_.path() + "/out",
                       .stderr_path = directory_.path() + "/err",
                       .allowed_programs = {"/opt/*"},
                       .worker = "w"});
  const std::string real = std::filesystem::canonical("/bin/sh");
  EXPECT_EQ(Next(),
            absl::StrCat("not started: job 1: worker w does not allow the program sh (", real,
                         "); choose another program, or start the worker with "
                         "--allow-program ",
                         real));
}

TEST_F(GuardedRunnerTest, AMountThatCannotBeMadeIsReported) {
  runner_.Start(key_, {.argv = {"sh"},
                       .environment = {"PATH=/bin"},
                       .stdout_path = directory_.path() + "/out",
                       .stderr_path = directory_.path() + "/err",
                       .mounts = {.read_only_root = true, .writable = {"/no/such"}}});
  EXPECT_THAT(Next(), HasSubstr("not started: cannot run sh with mounts of its own: "));
}

TEST_F(GuardedRunnerTest, ASignalIsReported) {
  Start({"signal", std::to_string(SIGUSR1)});
  EXPECT_EQ(Next(), "started");
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGUSR1));
  EXPECT_EQ(Next(), "gone");
}

TEST_F(GuardedRunnerTest, AnExitIsRecordedBeforeTheRankIsGone) {
  Start({"exit", "7"});
  while (Next() != "gone") ASSERT_FALSE(HasFailure());
  const auto record = ReadExitRecord(exit_path_);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->exit, (Exit{Exit::How::kCode, 7}));
  EXPECT_FALSE(record->stopped);
  EXPECT_FALSE(record->oom);
  EXPECT_GT(record->at_unix_nanos, 0);
}

TEST_F(GuardedRunnerTest, AnExitAfterTerminateIsRecordedAsStopped) {
  Start({"wait", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  runner_.Terminate(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGTERM));
  EXPECT_EQ(Next(), "gone");
  const auto record = ReadExitRecord(exit_path_);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->exit, (Exit{Exit::How::kSignal, SIGTERM}));
  EXPECT_TRUE(record->stopped);
}

TEST_F(GuardedRunnerTest, AnExitAfterAKillIsNotRecorded) {
  Start({"wait", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  runner_.Kill(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGKILL));
  EXPECT_EQ(Next(), "gone");
  EXPECT_EQ(ReadExitRecord(exit_path_), std::nullopt);
}

TEST_F(GuardedRunnerTest, AMissingProgramIsNotStartedAndSaysWhy) {
  Start({"exit", "0"}, "/nowhere/program");
  EXPECT_EQ(Next(), "not started: cannot run /nowhere/program: No such file or directory");
}

TEST_F(GuardedRunnerTest, AMissingGuardSaysWhy) {
  GuardedRunner runner("/nowhere/guard", news_.Sink());
  runner.Start(key_, {.argv = {DP_RANK_STUB, "exit", "0"},
                      .environment = {},
                      .stdout_path = "/dev/null",
                      .stderr_path = "/dev/null"});
  EXPECT_THAT(Next(), HasSubstr("cannot start /nowhere/guard"));
}

TEST_F(GuardedRunnerTest, ARankSeesOnlyItsEnvironmentAndWritesToItsFile) {
  Start({"env", "COLOUR"});
  EXPECT_EQ(Next(), "started");
  EXPECT_EQ(Next(), "code 0");
  EXPECT_EQ(Output(), "COLOUR=blue\n");
}

TEST_F(GuardedRunnerTest, TerminateReachesTheRank) {
  Start({"wait", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  runner_.Terminate(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGTERM));
}

TEST_F(GuardedRunnerTest, TerminateEndsAStoppedRankToo) {
  Start({"wait", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  Stop(pid_);
  runner_.Terminate(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGTERM));
}

TEST_F(GuardedRunnerTest, AStoppedGuardCarriesOutWhatItIsTold) {
  Start({"wait", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  Stop(OnlyChild());
  runner_.Kill(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGKILL));
  EXPECT_EQ(Next(), "gone");
}

TEST_F(GuardedRunnerTest, AStoppedGuardDoesNotHoldUpTheEndOfTheRunner) {
  auto runner = std::make_unique<GuardedRunner>(DP_GUARD, news_.Sink());
  runner->Start(key_, {.argv = {DP_RANK_STUB, "wait", fifo_.path()},
                       .environment = {},
                       .stdout_path = "/dev/null",
                       .stderr_path = "/dev/null"});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  const pid_t guard = OnlyChild();
  Stop(guard);
  std::jthread end([&] { runner.reset(); });
  EXPECT_EQ(fifo_.Read(), "");
  if (HasFailure()) kill(guard, SIGCONT);  // otherwise `end` never ends
}

TEST_F(GuardedRunnerTest, AGuardSleepsUntilSomethingHappens) {
  if (!CallsAreShown()) GTEST_SKIP() << "no process may be traced here";
  Start({"wait", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  const pid_t guard = OnlyChild();
  const auto waits_for_an_event = [&] { return TimeoutOfPoll(guard) == -1; };
  ASSERT_TRUE(Eventually(waits_for_an_event));
  const int64_t before = TimesAsleep(guard);
  Stop(pid_);  // SIGCHLD to the guard
  EXPECT_TRUE(Eventually([&] { return TimesAsleep(guard) > before && waits_for_an_event(); }));
}

TEST_F(GuardedRunnerTest, KillEndsEveryDescendantWhateverItsSession) {
  Start({"stubborn", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  runner_.Terminate(key_);
  runner_.Kill(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGKILL));
  EXPECT_EQ(Next(), "gone");
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_F(GuardedRunnerTest, WhatARankLeavesBehindIsGoneBeforeItIs) {
  Start({"leave", fifo_.path()});
  EXPECT_EQ(Next(), "started");
  EXPECT_EQ(Next(), "code 0");
  EXPECT_EQ(Next(), "gone");
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_F(GuardedRunnerTest, ManyRanksRunBesideEachOther) {
  for (int rank = 1; rank <= 20; ++rank) {
    runner_.Start({JobId(1), Generation(1), rank}, {.argv = {DP_RANK_STUB, "exit", "0"},
                                                    .environment = {},
                                                    .stdout_path = "/dev/null",
                                                    .stderr_path = "/dev/null"});
  }
  int gone = 0;
  for (int news = 0; news < 60; ++news) gone += Next() == "gone" ? 1 : 0;
  EXPECT_EQ(gone, 20);
}

TEST_F(GuardedRunnerTest, AKilledGuardTakesItsRankAndAllDescendantsAlong) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Start({"stubborn", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  kill(OnlyChild(), SIGKILL);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGKILL));
  EXPECT_EQ(Next(), "gone");
  EXPECT_EQ(fifo_.Read(), "");
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

class GuardLockHeldTest : public GuardedRunnerTest {
 protected:
  void StartLocked(std::vector<std::string> argv) {
    locked_.Start(key_, {.argv = std::move(argv),
                         .environment = {},
                         .stdout_path = directory_.path() + "/out",
                         .stderr_path = directory_.path() + "/err"});
    EXPECT_EQ(Next(), "started");
  }

  std::optional<GuardLock> lock_ = *GuardLock::Open(directory_.path());
  GuardedRunner locked_{DP_GUARD,           news_.Sink(),
                        /*descriptors=*/64, nullptr,      Clock::Steady(), lock_->fd()};
};

TEST_F(GuardLockHeldTest, AGuardHoldsTheLockUntilNothingIsLeftOfItsRank) {
  StartLocked({DP_RANK_STUB, "stubborn", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  lock_.reset();  // as if this daemon were dead
  GuardLock next = *GuardLock::Open(directory_.path());
  EXPECT_FALSE(next.EarlierGuardsGone());
  locked_.Kill(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGKILL));
  EXPECT_EQ(Next(), "gone");
  EXPECT_TRUE(next.EarlierGuardsGone());
}

TEST_F(GuardLockHeldTest, ARankDoesNotInheritTheLock) {
  StartLocked({"/usr/bin/find", "/proc/self/fd", "-lname", absl::StrCat("*", kGuardsName)});
  EXPECT_EQ(Next(), "code 0");
  EXPECT_EQ(Output(), "");
}

TEST(GuardTest, AKilledDaemonTakesEveryDescendantOfItsRanksAlong) {
  TemporaryDirectory directory;
  Fifo fifo(directory.path() + "/fifo");
  const char* argv[] = {DP_RUNNER_HOST,      DP_GUARD, "-", DP_RANK_STUB, "stubborn",
                        fifo.path().c_str(), nullptr};
  pid_t host = 0;
  ASSERT_EQ(posix_spawn(&host, DP_RUNNER_HOST, nullptr, nullptr, const_cast<char**>(argv), nullptr),
            0);
  EXPECT_EQ(fifo.Read(), "ready\n");
  kill(host, SIGKILL);
  EXPECT_EQ(fifo.Read(), "");
  waitpid(host, nullptr, 0);
}

}  // namespace
}  // namespace dp::worker
