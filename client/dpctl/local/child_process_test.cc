#include "client/dpctl/local/child_process.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/bounded_queue.h"
#include "client/dpctl/interrupts.h"
#include "client/dpctl/local/child_ends.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

// Long enough for any machine; only a failing test waits for it.
constexpr absl::Duration kPatience = absl::Seconds(30);

class ChildProcessTest : public ::testing::Test {
 protected:
  ~ChildProcessTest() override { std::remove(errors_.c_str()); }

  ChildProcess Shell(const std::string& script) {
    auto child = ChildProcess::Start({"/bin/sh", "-c", script}, errors_);
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }
  std::string ErrorText() const {
    std::ostringstream text;
    text << std::ifstream(errors_).rdbuf();
    return text.str();
  }
  static bool Runs(pid_t pid) { return kill(pid, 0) == 0; }

  const std::string errors_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ChildProcessTest, ItsFirstLineIsRead) {
  ChildProcess child = Shell("echo ready at 1; echo more; read forever");
  EXPECT_EQ(child.FirstLine(kPatience).value(), "ready at 1");
}

TEST_F(ChildProcessTest, AnEarlyEndIsAnError) {
  ChildProcess child = Shell("echo broken >&2");
  EXPECT_TRUE(absl::IsAborted(child.FirstLine(kPatience).status()));
  child.Stop(kPatience);
  EXPECT_EQ(ErrorText(), "broken\n");
}

TEST_F(ChildProcessTest, AllOfItsOutputIsReadAndItsEndAwaited) {
  ChildProcess child = Shell("head -c 200000 /dev/zero | tr '\\0' x; exec >&-; exit 7");
  EXPECT_EQ(child.AllOutput().value(), std::string(200000, 'x'));
  EXPECT_EQ(child.AwaitEnd(), "ended with exit code 7");
}

TEST_F(ChildProcessTest, ItHasNoneOfDpsVariablesButThoseAboutTheMachine) {
  const std::map<std::string, std::string> variables = {
      {"DP_INSECURE", "1"},   {"DP_JOIN_TOKEN", "junk"},  {"DP_CREDENTIALS", "/nowhere"},
      {"DP_RUN_AS", "owner"}, {"DP_COORDINATOR", "junk"}, {"DP_PROCESS_TRACKING", "guard"},
      {"DPX", "x"},           {"DP_RANK", "3"},           {"DP_CUDA_PLAN_CACHE", "/plans"}};
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  ChildProcess child = Shell("env | grep ^DP | sort | tr '\\n' ' '; echo");
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
  EXPECT_EQ(child.FirstLine(kPatience).value(),
            "DPX=x DP_CUDA_PLAN_CACHE=/plans DP_PROCESS_TRACKING=guard ");
}

TEST_F(ChildProcessTest, ALineThatComesInPiecesIsReadAfterADeadline) {
  ASSERT_EQ(mkfifo((errors_ + ".go").c_str(), 0600), 0);
  ChildProcess child = Shell("printf 'ready '; read go < " + errors_ + ".go; echo now");
  EXPECT_TRUE(absl::IsDeadlineExceeded(child.FirstLine(absl::Milliseconds(10)).status()));
  std::ofstream(errors_ + ".go") << "go\n";
  EXPECT_EQ(child.FirstLine(kPatience).value(), "ready now");
  std::remove((errors_ + ".go").c_str());
}

TEST_F(ChildProcessTest, SilenceIsAnErrorAtTheDeadline) {
  ChildProcess child = Shell("while :; do :; done");
  EXPECT_TRUE(absl::IsDeadlineExceeded(child.FirstLine(absl::Milliseconds(10)).status()));
}

TEST_F(ChildProcessTest, TheWaitForItsLineCanBeEnded) {
  Interrupts interrupts;
  interrupts.Raise();
  ChildProcess child = Shell("while :; do :; done");
  const auto line = child.FirstLine(absl::InfiniteDuration(), interrupts.descriptor());
  EXPECT_TRUE(absl::IsCancelled(line.status())) << line.status();
}

TEST_F(ChildProcessTest, AFileForItsErrorsThatCannotBeIsNoMatterOfTheNetwork) {
  const auto child = ChildProcess::Start({"/bin/true"}, "/no/such/directory/errors");
  EXPECT_TRUE(absl::IsInternal(child.status())) << child.status();
}

TEST_F(ChildProcessTest, StopLetsItEndByItself) {
  ChildProcess child = Shell("trap 'echo bye >&2; exit 0' TERM; echo $$; while :; do :; done");
  pid_t pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(child.FirstLine(kPatience).value(), &pid));
  child.Stop(kPatience);
  EXPECT_EQ(ErrorText(), "bye\n");
  EXPECT_FALSE(Runs(pid));
}

TEST_F(ChildProcessTest, OneThatIgnoresTheSignalIsKilled) {
  ChildProcess child = Shell("trap '' TERM; echo $$; while :; do :; done");
  pid_t pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(child.FirstLine(kPatience).value(), &pid));
  child.Stop(absl::Milliseconds(10));
  EXPECT_FALSE(Runs(pid));
}

TEST_F(ChildProcessTest, AMissingProgramSaysSo) {
  auto child = ChildProcess::Start({"/no/such/program"}, errors_);
  ASSERT_TRUE(child.ok());
  EXPECT_FALSE(child->FirstLine(kPatience).ok());
  child->Stop(kPatience);
  EXPECT_EQ(ErrorText(), "/no/such/program: cannot be executed\n");
}

TEST_F(ChildProcessTest, WhoeverWatchesItIsToldOfItsEndAndHowItCame) {
  std::vector<ChildProcess> children;
  for (const char* script : {"exec sleep 1000", "echo up; exit 3", "echo up; kill -9 $$"})
    children.push_back(Shell(script));
  std::vector<int> pidfds;
  for (const ChildProcess& child : children) pidfds.push_back(child.pidfd());
  BoundedQueue<size_t> ended(10);
  const ChildEnds watch(pidfds, [&ended](size_t place) { ended.TryPush(place); });
  std::set<size_t> places;
  while (places.size() < 2) {
    const std::vector<size_t> some = ended.DrainFor(kPatience);
    ASSERT_FALSE(some.empty());
    places.insert(some.begin(), some.end());
  }
  EXPECT_THAT(places, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(children[1].HowItEnded(), "ended with exit code 3");
  EXPECT_EQ(children[2].HowItEnded(), "was ended by signal 9");
}

// An intermediate process starts a child and dies at once. The pipe that the child holds open shows
// when the child is gone.
TEST_F(ChildProcessTest, TheKernelEndsItWithItsParent) {
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(alive[0]);
    auto child = ChildProcess::Start({"/bin/sh", "-c", "echo up; while :; do :; done"}, errors_);
    const bool up = child.ok() && child->FirstLine(kPatience).ok();
    kill(getpid(), up ? SIGKILL : SIGABRT);
  }
  close(alive[1]);
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  pollfd end{.fd = alive[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))), 1);
  close(alive[0]);
}

}  // namespace
}  // namespace dp::ctl
