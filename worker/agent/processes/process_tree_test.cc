#include "worker/agent/processes/process_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"
#include "worker/agent/testing/process_state.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A child of this process. On request the child has a child of its own in another session.
class ProcessTreeTest : public testing::Test {
 protected:
  // Avoids the functions under test, which may be broken.
  ~ProcessTreeTest() override {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }

  pid_t Fork(const char* name, bool grandchild = false) {
    const pid_t child = fork();
    if (child != 0) return children_.emplace_back(child);
    prctl(PR_SET_NAME, name);
    if (grandchild && fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setsid();
    }
    (void)!write(open(fifo_.path().c_str(), O_WRONLY), "x", 1);
    for (;;) pause();
  }
  // Waits until `count` processes run.
  void AwaitReady(size_t count) {
    std::string said;
    while (said.size() < count) said += fifo_.Read();
    ASSERT_EQ(said, std::string(count, 'x'));
  }

  TemporaryDirectory directory_;
  Fifo fifo_{directory_.path() + "/fifo"};
  std::vector<pid_t> children_;
};

TEST_F(ProcessTreeTest, AQuickTreeHasTheRootAndItsDescendantsAlone) {
  const pid_t child = Fork("child", /*grandchild=*/true);
  Fork("other");
  AwaitReady(3);
  const auto tree = QuickTree({child});
  if (!tree.has_value()) GTEST_SKIP() << "this kernel lists no children";
  EXPECT_THAT(*tree, ElementsAre(child, Children(child).front()));
}

TEST_F(ProcessTreeTest, DescendantsAreFoundInWhateverSession) {
  const pid_t child = Fork("child", /*grandchild=*/true);
  AwaitReady(2);
  EXPECT_THAT(Children(getpid()), ElementsAre(child));
  EXPECT_THAT(Children(child), SizeIs(1));
  EXPECT_THAT(Descendants(getpid()), SizeIs(2));
  EXPECT_THAT(Descendants(child), ElementsAre(Children(child).front()));
}

TEST_F(ProcessTreeTest, ANameThatLooksLikeTheRestOfTheLineMisleadsNobody) {
  const pid_t child = Fork("a) Z 1 (b");
  AwaitReady(1);
  EXPECT_THAT(Children(getpid()), ElementsAre(child));
  EXPECT_THAT(Descendants(getpid()), ElementsAre(child));
}

TEST_F(ProcessTreeTest, AStatThatWasCutIsNone) {
  EXPECT_EQ(ParseProcessStat("7 (a) S 12 7"), (ProcessStat{.parent = 12, .zombie = false}));
  EXPECT_EQ(ParseProcessStat("7 (a) Z 12"), (ProcessStat{.parent = 12, .zombie = true}));
  EXPECT_EQ(ParseProcessStat("7 (a) S 12) Z 1 (b) X 3"),
            (ProcessStat{.parent = 3, .zombie = true}));
  for (const char* cut :
       {"", "7", "7 (a", "7 (a)", "7 (a) S", "7 (a) S x", "7 (a) S -007", "7 (a) S 4294967373"}) {
    EXPECT_EQ(ParseProcessStat(cut), std::nullopt) << cut;
  }
}

TEST_F(ProcessTreeTest, AZombieIsAChildAndNoDescendant) {
  const pid_t child = Fork("child");
  AwaitReady(1);
  kill(child, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(Children(getpid()), ElementsAre(child));
  EXPECT_THAT(Descendants(getpid()), IsEmpty());
}

TEST_F(ProcessTreeTest, AKillReachesAllDescendantsAndSparesTheRoot) {
  const pid_t child = Fork("child", /*grandchild=*/true);
  AwaitReady(2);
  KillDescendants(child);
  EXPECT_TRUE(Eventually([&] { return Descendants(child).empty(); }));
  EXPECT_THAT(Descendants(getpid()), ElementsAre(child));
}

}  // namespace
}  // namespace dp::worker
