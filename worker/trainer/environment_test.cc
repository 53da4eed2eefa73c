#include "worker/trainer/environment.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

class EnvironmentTest : public ::testing::Test {
 protected:
  absl::StatusOr<Environment> Read() {
    return ReadEnvironment([this](const char* name) {
      const auto it = variables_.find(name);
      return it == variables_.end() ? nullptr : it->second.c_str();
    });
  }

  std::map<std::string, std::string> variables_ = {{"DP_COORDINATOR", "127.0.0.1:7070"},
                                                   {"DP_JOB", "7"},
                                                   {"DP_GENERATION", "1"},
                                                   {"DP_RANK", "2"},
                                                   {"DP_WORLD_SIZE", "4"},
                                                   {"DP_WORKER", "host-a"},
                                                   {"DP_ADDRESS", "10.0.0.1"},
                                                   {"DP_METRICS_FILE", "/spool/2.metrics"}};
};

TEST_F(EnvironmentTest, TheDeviceIsTheCpuUnlessTheDaemonSaysOtherwise) {
  EXPECT_FALSE(Read()->on_gpu);
  EXPECT_EQ(Read()->device(), "cpu");
  variables_["DP_DEVICE"] = "cuda";
  Environment on_gpu = *Read();
  EXPECT_TRUE(on_gpu.on_gpu);
  EXPECT_EQ(on_gpu.device(), "a GPU of unknown model");
  on_gpu.card.model = "NVIDIA H100";
  EXPECT_EQ(on_gpu.device(), "NVIDIA H100");
  variables_["DP_DEVICE"] = "tpu";
  EXPECT_EQ(Read().status().message(), "DP_DEVICE is 'tpu', neither cpu nor cuda");
}

TEST_F(EnvironmentTest, ReadsWhatTheDaemonSets) {
  const auto environment = Read();
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->job, JobId(7));
  EXPECT_EQ(environment->rank, 2);
  EXPECT_EQ(environment->world_size, 4);
  EXPECT_EQ(environment->worker, "host-a");
  EXPECT_EQ(environment->address, "10.0.0.1");
}

TEST_F(EnvironmentTest, AMissingVariableIsNamedWithTheRemedy) {
  variables_.erase("DP_COORDINATOR");
  EXPECT_THAT(Read().status().message(),
              AllOf(HasSubstr("DP_COORDINATOR is not set"), HasSubstr("dpctl")));
}

TEST_F(EnvironmentTest, AVariableThatIsNoNumberIsNamedWithItsValue) {
  variables_["DP_RANK"] = "two";
  EXPECT_THAT(Read().status().message(), HasSubstr("DP_RANK is 'two'"));
}

TEST_F(EnvironmentTest, ARankOutsideTheWorldIsRefused) {
  for (const std::string rank : {"0", "3"}) {
    variables_["DP_RANK"] = rank;
    EXPECT_TRUE(Read().ok()) << Read().status();
  }
  variables_["DP_RANK"] = "4";
  EXPECT_THAT(Read().status().message(), HasSubstr("DP_WORLD_SIZE is 4"));
}

}  // namespace
}  // namespace dp::trainer
