#include <filesystem>
#include <fstream>

#include "worker/agent/agent.h"
#include "worker/agent/testing/agent_fixture.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

// Ranks with a private /tmp.
class AgentSandboxTest : public AgentFixture {
 protected:
  AgentSandboxTest() {
    private_tmps_.emplace(directory_.path(), [] { return true; });
  }

  // The directory of the rank that was started last.
  std::string Dir() const { return runner_.command().mounts.private_tmp; }
};

TEST_F(AgentSandboxTest, RanksOfAGenerationGetOneDirectoryThatGoesWithTheLastOfThem) {
  RunRankZero();
  const std::string dir = Dir();
  EXPECT_THAT(dir, StartsWith(directory_.path() + "/tmp/1.1."));
  EXPECT_TRUE(std::filesystem::exists(dir));
  coordinator_.Assign({ARank(0), ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "start 1");
  EXPECT_EQ(Dir(), dir);
  coordinator_.Assign({ARank(1)});
  EXPECT_EQ(runner_.NextOrder(), "kill 0");
  AwaitRemovedSpool();
  EXPECT_TRUE(std::filesystem::exists(dir));
  coordinator_.Assign({});
  EXPECT_EQ(runner_.NextOrder(), "kill 1");
  AwaitRemoved(dir);
}

TEST_F(AgentSandboxTest, WithoutRoomForItNoRankIsStartedAndNoSlotIsOfferedUntilThereIs) {
  std::ofstream(directory_.path() + kPrivateTmpsName) << "no directory";
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({ARank(0)});
  EXPECT_THAT(coordinator_.NextHeard(), MatchesRegex("slots 1, 0: private /tmp .*"));
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("rank 0 exited error: private /tmp"));
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  std::filesystem::remove(directory_.path() + kPrivateTmpsName);
  EXPECT_EQ(coordinator_.NextHeard(), "slots 2");
}

}  // namespace
}  // namespace dp::worker
