#include "worker/agent/agent.h"

#include <fstream>

#include "worker/agent/testing/agent_fixture.h"

namespace dp::worker {
namespace {

using testing::Contains;
using testing::HasSubstr;

class AgentSecretsTest : public AgentFixture {
 protected:
  AgentSecretsTest() {
    rank_.mutable_spec()->add_secrets("HF_TOKEN");
    v1::Secret* secret = rank_.add_secrets();
    secret->set_name("HF_TOKEN");
    secret->set_value("hf_abcdef");
  }

  v1::AssignedRank rank_ = ARank(0);
};

TEST_F(AgentSecretsTest, TheRankHasTheSecretAndTheCoordinatorGetsStars) {
  RunRankZero(rank_);
  EXPECT_THAT(runner_.command().environment, Contains("HF_TOKEN=hf_abcdef"));
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "token hf_abcdef\n";
  std::ofstream(spool_.path(v1::LOG_STREAM_METRICS)) << "{\"t\": \"hf_abcdef\"}\n";
  std::ofstream(spool_.path(v1::LOG_STREAM_STDERR)) << "bad token hf_abcdef\n";
  End(0, 3);
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 exited code 3: bad token *********");
  EXPECT_EQ(coordinator_.NextHeard(), "rank 0 released");
  EXPECT_EQ(coordinator_.log(v1::LOG_STREAM_STDOUT), "token *********\n");
  EXPECT_EQ(coordinator_.log(v1::LOG_STREAM_STDERR), "bad token *********\n");
  EXPECT_EQ(coordinator_.log(v1::LOG_STREAM_METRICS), "{\"t\": \"*********\"}\n");
  coordinator_.Assign({});
  AwaitRemovedSpool();
}

// The coordinator sends them once.
TEST_F(AgentSecretsTest, AllRanksOfTheJobHaveThem) {
  v1::AssignedRank other = ARank(1);
  other.mutable_spec()->add_secrets("HF_TOKEN");
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({rank_, other});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  EXPECT_EQ(runner_.NextOrder(), "start 1");
  EXPECT_THAT(runner_.command().environment, Contains("HF_TOKEN=hf_abcdef"));
}

TEST_F(AgentSecretsTest, AReasonWhyARankWasNotStartedHidesThem) {
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({rank_});
  EXPECT_EQ(runner_.NextOrder(), "start 0");
  runner_.Tell(0, ProcessNotStarted{"cannot run /opt/hf_abcdef/run"});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("cannot run /opt/*********/run"));
}

TEST_F(AgentSecretsTest, ARankWhoseSecretsCannotBeOpenedIsNotStarted) {
  rank_.clear_secrets();
  rank_.set_no_secrets("secret HF_TOKEN of job 7 cannot be opened: another key has sealed it");
  Run();
  EXPECT_EQ(coordinator_.NextHeard(), "register a");
  coordinator_.Assign({rank_});
  EXPECT_THAT(coordinator_.NextHeard(), HasSubstr("secret HF_TOKEN of job 7 cannot be opened"));
}

TEST_F(AgentSecretsTest, OutputOfAnEarlierDaemonIsHiddenToo) {
  ASSERT_TRUE(spool_.Create({absl::FromUnixSeconds(100)}).ok());
  ASSERT_TRUE(spool_.KeepSecrets({"hf_abcdef"}).ok());
  std::ofstream(spool_.path(v1::LOG_STREAM_STDOUT)) << "token hf_abcdef\nhf_abc";
  Run();
  EXPECT_EQ(coordinator_.AwaitLog(v1::LOG_STREAM_STDOUT, "token *********\n******"),
            "token *********\n******");
  AwaitRemovedSpool();
}

}  // namespace
}  // namespace dp::worker
