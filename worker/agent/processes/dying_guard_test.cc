#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/agent/processes/guarded_runner.h"
#include "worker/agent/testing/fifo.h"
#include "worker/agent/testing/process_news.h"
#include "worker/agent/testing/ticking_clock.h"
#include "worker/agent/testing/tracer.h"

namespace dp::worker {
namespace {

// Guards that are killed after their rank's exit, but before its leftover processes have died.
class DyingGuardTest : public testing::Test {
 protected:
  DyingGuardTest() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~DyingGuardTest() override { prctl(PR_SET_CHILD_SUBREAPER, 0); }

  // Returns the pid of the process that the rank leaves behind.
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
    const std::optional<ProcessNews> news = news_.Next();
    return news ? absl::StrCat(news->key.rank, " ", Describe(*news)) : "timeout";
  }

  static RankKey KeyOf(int rank) { return {JobId(1), Generation(1), rank}; }

  TemporaryDirectory directory_;
  Fifo fifo_{directory_.path() + "/fifo"};
  NewsInTurn news_;
  GuardedRunner runner_{DP_DYING_GUARD, news_.Sink()};
};

TEST_F(DyingGuardTest, WhatItsRankLeftBehindIsGoneBeforeTheRankIs) {
  EXPECT_GT(StartAndEnd(0, fifo_), 0);
  KillGuard(0);
  EXPECT_EQ(Next(), "0 gone");
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_F(DyingGuardTest, HowItsRankExitedIsKnownAlsoWhereAnOrderWasNotRead) {
  runner_.Start(KeyOf(0), {.argv = {fifo_.path(), "unread"},
                           .environment = {},
                           .stdout_path = "/dev/null",
                           .stderr_path = "/dev/null"});
  EXPECT_EQ(Next(), "0 started");
  runner_.Terminate(KeyOf(0));
  EXPECT_EQ(Next(), "0 code 33");
  EXPECT_EQ(Next(), "0 gone");
}

TEST_F(DyingGuardTest, ARankThatCannotBeConfinedIsNotStartedAndSaysSoOnce) {
  auto runner = std::make_unique<GuardedRunner>(DP_DYING_GUARD, news_.Sink());
  runner->Start(KeyOf(0), {.argv = {fifo_.path(), "unconfined"},
                           .environment = {},
                           .stdout_path = "/dev/null",
                           .stderr_path = "/dev/null"});
  EXPECT_EQ(Next(), absl::StrCat("0 not started: cannot move ", fifo_.path(),
                                 " to its cgroup: Permission denied"));
  runner.reset();
  EXPECT_TRUE(news_.empty());
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

TEST_F(DyingGuardTest, WhatDoesNotDieKeepsItsRankFromBeingGoneAndNoOtherWaiting) {
  Fifo other(directory_.path() + "/other");
  Tracer tracer(StartAndEnd(0, fifo_));
  if (!tracer.attached()) GTEST_SKIP() << "no process may be traced here";
  KillGuard(0);
  ASSERT_EQ(fifo_.Read(), "");  // dead, but not gone
  StartAndEnd(1, other);        // no news of rank 0 comes before
  tracer.LetGo();
  EXPECT_EQ(Next(), "0 gone");
  KillGuard(1);
  EXPECT_EQ(Next(), "1 gone");
}

TEST_F(DyingGuardTest, AtItsEndItWaitsSoLongForWhatDoesNotDieAndNoLonger) {
  const TickingClock clock;
  auto runner = std::make_unique<GuardedRunner>(DP_DYING_GUARD, news_.Sink(), 1024, nullptr, clock);
  const pid_t left = StartAndEnd(0, fifo_, *runner);
  Tracer tracer(left);
  if (!tracer.attached()) GTEST_SKIP() << "no process may be traced here";
  runner->Kill(KeyOf(0));
  ASSERT_EQ(fifo_.Read(), "");  // dead, but not gone
  const absl::Duration before = clock.passed();
  runner.reset();
  EXPECT_GE(clock.passed() - before, GuardedRunner::kSweepPatience);
  EXPECT_TRUE(news_.empty());  // no news says that it is gone
  tracer.LetGo();
  EXPECT_EQ(waitpid(left, nullptr, 0), left);
}

}  // namespace
}  // namespace dp::worker
