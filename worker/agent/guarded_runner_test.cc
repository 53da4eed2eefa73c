#include "worker/agent/guarded_runner.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/overloaded.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/process_tree.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

std::string Describe(const ProcessNews& news) {
  return std::visit(
      Overloaded{
          [](const ProcessStarted&) -> std::string { return "started"; },
          [](const ProcessNotStarted& not_started) { return "not started: " + not_started.error; },
          [](const ProcessExited& exited) {
            const bool code = exited.exit.how == Exit::How::kCode;
            return absl::StrCat(code ? "code " : "signal ", exited.exit.number);
          },
          [](const ProcessGone&) -> std::string { return "gone"; },
      },
      news.what);
}

class GuardedRunnerTest : public testing::Test {
 protected:
  // Runs the stub with a real guard.
  void Start(std::vector<std::string> arguments, std::string program = DP_RANK_STUB) {
    arguments.insert(arguments.begin(), std::move(program));
    runner_.Start(key_, {.argv = std::move(arguments),
                         .environment = {"COLOUR=blue"},
                         .stdout_path = directory_.path() + "/out",
                         .stderr_path = directory_.path() + "/err"});
  }

  std::string Next() {
    if (arrived_.empty()) {
      for (ProcessNews& each : news_.DrainFor(absl::Seconds(20))) arrived_.push_back(each);
    }
    if (arrived_.empty()) return "timeout";
    const ProcessNews news = arrived_.front();
    arrived_.pop_front();
    if (const auto* started = std::get_if<ProcessStarted>(&news.what)) pid_ = started->pid;
    return Describe(news);
  }

  std::string Output() const {
    std::ifstream file(directory_.path() + "/out");
    return (std::stringstream() << file.rdbuf()).str();
  }

  const RankKey key_{JobId(1), Generation(1), 0};
  TemporaryDirectory directory_;
  Fifo fifo_{directory_.path() + "/fifo"};
  BoundedQueue<ProcessNews> news_{100};
  std::deque<ProcessNews> arrived_;
  pid_t pid_ = 0;
  GuardedRunner runner_{DP_GUARD, [this](ProcessNews news) { news_.TryPush(news); }};
};

TEST_F(GuardedRunnerTest, AnExitCodeIsReported) {
  Start({"exit", "7"});
  EXPECT_EQ(Next(), "started");
  EXPECT_EQ(Next(), "code 7");
  EXPECT_EQ(Next(), "gone");
}

TEST_F(GuardedRunnerTest, ASignalIsReported) {
  Start({"signal", std::to_string(SIGUSR1)});
  EXPECT_EQ(Next(), "started");
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGUSR1));
  EXPECT_EQ(Next(), "gone");
}

TEST_F(GuardedRunnerTest, AMissingProgramIsNotStartedAndSaysWhy) {
  Start({"exit", "0"}, "/nowhere/program");
  EXPECT_EQ(Next(), "not started: cannot run /nowhere/program: No such file or directory");
}

TEST_F(GuardedRunnerTest, AMissingGuardSaysWhy) {
  GuardedRunner runner("/nowhere/guard", [this](ProcessNews news) { news_.TryPush(news); });
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
  kill(pid_, SIGSTOP);
  runner_.Terminate(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGTERM));
}

TEST_F(GuardedRunnerTest, AStoppedGuardCarriesOutWhatItIsTold) {
  Start({"wait", fifo_.path()});
  EXPECT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(Next(), "started");
  std::ifstream stat(absl::StrCat("/proc/", pid_, "/stat"));
  std::string number, name, state;
  pid_t guard = 0;
  stat >> number >> name >> state >> guard;
  ASSERT_EQ(kill(guard, SIGSTOP), 0);
  runner_.Kill(key_);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGKILL));
  EXPECT_EQ(Next(), "gone");
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
  const std::vector<pid_t> guards = Children(getpid());
  ASSERT_EQ(guards.size(), 1u);
  kill(guards.front(), SIGKILL);
  EXPECT_EQ(Next(), absl::StrCat("signal ", SIGKILL));
  EXPECT_EQ(Next(), "gone");
  EXPECT_EQ(fifo_.Read(), "");
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// Guards that are killed between the end of their rank and that of what it has left behind.
class DyingGuardTest : public testing::Test {
 protected:
  DyingGuardTest() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~DyingGuardTest() override { prctl(PR_SET_CHILD_SUBREAPER, 0); }

  // Returns the pid of what the rank leaves behind.
  pid_t StartAndEnd(int rank, Fifo& fifo) { return StartAndEnd(rank, fifo, runner_); }
  pid_t StartAndEnd(int rank, Fifo& fifo, GuardedRunner& runner) {
    runner.Start(KeyOf(rank), {.argv = {fifo.path()},
                               .environment = {},
                               .stdout_path = "/dev/null",
                               .stderr_path = "/dev/null"});
    const pid_t left = std::atoi(fifo.Read().c_str());
    EXPECT_EQ(Next(), absl::StrCat(rank, " started"));
    EXPECT_EQ(Next(), absl::StrCat(rank, " code 0"));
    return left;
  }
  void KillGuard(int rank) { runner_.Kill(KeyOf(rank)); }

  std::string Next() {
    if (arrived_.empty()) {
      for (ProcessNews& each : news_.DrainFor(absl::Seconds(20))) arrived_.push_back(each);
    }
    if (arrived_.empty()) return "timeout";
    const ProcessNews news = arrived_.front();
    arrived_.pop_front();
    return absl::StrCat(news.key.rank, " ", Describe(news));
  }

  static RankKey KeyOf(int rank) { return {JobId(1), Generation(1), rank}; }

  TemporaryDirectory directory_;
  Fifo fifo_{directory_.path() + "/fifo"};
  BoundedQueue<ProcessNews> news_{100};
  std::deque<ProcessNews> arrived_;
  GuardedRunner runner_{DP_DYING_GUARD, [this](ProcessNews news) { news_.TryPush(news); }};
};

TEST_F(DyingGuardTest, WhatItsRankLeftBehindIsGoneBeforeTheRankIs) {
  EXPECT_GT(StartAndEnd(0, fifo_), 0);
  KillGuard(0);
  EXPECT_EQ(Next(), "0 gone");
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_F(DyingGuardTest, AProgramOfTheDaemonsOwnIsNotTakenForWhatIsLeft) {
  Fifo own(directory_.path() + "/own");
  const char* argv[] = {DP_RANK_STUB, "wait", own.path().c_str(), nullptr};
  pid_t program = 0;
  ASSERT_EQ(posix_spawn(&program, argv[0], nullptr, nullptr, const_cast<char**>(argv), nullptr), 0);
  ASSERT_EQ(own.Read(), "ready\n");
  StartAndEnd(0, fifo_);
  KillGuard(0);
  EXPECT_EQ(Next(), "0 gone");
  EXPECT_EQ(waitpid(program, nullptr, WNOHANG), 0);
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
}

// Another process that traces one keeps its end from its parent, as a call does that the kernel
// does not break off.
class Tracer {
 public:
  explicit Tracer(pid_t traced) {
    int said[2];
    DP_CHECK(pipe(said) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      const char attached = ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0 ? 'y' : 'n';
      (void)!write(said[1], &attached, 1);
      for (;;) pause();
    }
    char attached = 'n';
    (void)!read(said[0], &attached, 1);
    attached_ = attached == 'y';
    close(said[0]);
    close(said[1]);
  }
  ~Tracer() { LetGo(); }

  bool attached() const { return attached_; }
  void LetGo() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  bool attached_ = false;
};

TEST_F(DyingGuardTest, WhatDoesNotDieKeepsItsRankFromBeingGoneAndNoOtherWaiting) {
  Fifo other(directory_.path() + "/other");
  Tracer tracer(StartAndEnd(0, fifo_));
  if (!tracer.attached()) GTEST_SKIP() << "no process may be traced here";
  KillGuard(0);
  ASSERT_EQ(fifo_.Read(), "");  // dead, but not gone
  StartAndEnd(1, other);        // nothing of rank 0 comes before
  tracer.LetGo();
  EXPECT_EQ(Next(), "0 gone");
  KillGuard(1);
  EXPECT_EQ(Next(), "1 gone");
}

// Each look at it is a second later than the one before.
class TickingClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixSeconds(++seconds_); }
  absl::Duration passed() const { return absl::Seconds(seconds_.load()); }

 private:
  mutable std::atomic<int64_t> seconds_ = 0;
};

TEST_F(DyingGuardTest, AtItsEndItWaitsSoLongForWhatDoesNotDieAndNoLonger) {
  const TickingClock clock;
  auto runner = std::make_unique<GuardedRunner>(
      DP_DYING_GUARD, [this](ProcessNews news) { news_.TryPush(news); }, 1024, nullptr, clock);
  const pid_t left = StartAndEnd(0, fifo_, *runner);
  Tracer tracer(left);
  if (!tracer.attached()) GTEST_SKIP() << "no process may be traced here";
  runner->Kill(KeyOf(0));
  ASSERT_EQ(fifo_.Read(), "");  // dead, but not gone
  const absl::Duration before = clock.passed();
  runner.reset();
  EXPECT_GE(clock.passed() - before, GuardedRunner::kSweepPatience);
  EXPECT_TRUE(news_.DrainFor(absl::ZeroDuration()).empty());  // it is not said to be gone
  tracer.LetGo();
  EXPECT_EQ(waitpid(left, nullptr, 0), left);
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
