#include "worker/trainer/program/rank_plugins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "store/hash_store.h"

namespace dp::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TrainingPlan PlanOfPlugin(const std::string& library, const std::string& layer) {
  TrainingPlan plan;
  plan.layers = {{"", model::Flatten{}}, {"mine", model::Plugin{library, layer}}};
  return plan;
}

TEST(LoadPluginsTest, LayersGetTheirCodeAndFilesTheirHash) {
  TrainingPlan plan = PlanOfPlugin(DP_PLUGINS "/good_plugin.so", "rmsNorm");
  plan.layers.push_back({"again", model::Plugin{DP_PLUGINS "/good_plugin.so", "center"}});
  ASSERT_EQ(LoadPlugins(plan), absl::OkStatus());
  EXPECT_NE(std::get<model::Plugin>(plan.layers[1].kind).loaded, nullptr);
  EXPECT_NE(std::get<model::Plugin>(plan.layers[2].kind).loaded, nullptr);
  ASSERT_EQ(plan.plugins.size(), 1);
  EXPECT_EQ(plan.plugins[0].library, DP_PLUGINS "/good_plugin.so");
  EXPECT_EQ(plan.plugins[0].sha256.size(), 64);
}

TEST(LoadPluginsTest, AnErrorNamesTheLayer) {
  TrainingPlan missing = PlanOfPlugin("/nowhere.so", "");
  EXPECT_THAT(
      LoadPlugins(missing).message(),
      HasSubstr("layer 'mine' (plugin): plug-in library '/nowhere.so' is not on this host"));
  TrainingPlan unknown = PlanOfPlugin(DP_PLUGINS "/good_plugin.so", "other");
  EXPECT_THAT(LoadPlugins(unknown).message(), HasSubstr("has no layer 'other'"));
  TrainingPlan none;
  none.layers = {{"", model::Flatten{}}};
  EXPECT_EQ(LoadPlugins(none), absl::OkStatus());
  EXPECT_THAT(none.plugins, IsEmpty());
}

class AgreeOnPluginsTest : public ::testing::Test {
 protected:
  absl::Status Agree(int rank, std::vector<PluginFile> plugins,
                     absl::Duration timeout = absl::Seconds(60)) {
    TrainingPlan plan;
    plan.plugins = std::move(plugins);
    Environment environment;
    environment.rank = rank;
    environment.world_size = 2;
    environment.worker = "node-b";
    return AgreeOnPlugins(store_, environment, plan, timeout);
  }

  HashStore store_;
};

TEST_F(AgreeOnPluginsTest, EqualHashesAgree) {
  EXPECT_EQ(Agree(0, {{"/a.so", "11"}, {"/b.so", "22"}}), absl::OkStatus());
  EXPECT_EQ(Agree(1, {{"/a.so", "11"}, {"/b.so", "22"}}), absl::OkStatus());
}

TEST_F(AgreeOnPluginsTest, ARankWithAnotherFileIsNamedWithBothHashes) {
  ASSERT_EQ(Agree(0, {{"/a.so", "11"}, {"/b.so", "22"}}), absl::OkStatus());
  const absl::Status status = Agree(1, {{"/a.so", "11"}, {"/b.so", "33"}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "rank 1 on worker node-b: plug-in library '/b.so' has SHA-256 33, and that of rank 0 "
            "has 22; put the same file on every host");
}

TEST_F(AgreeOnPluginsTest, ARankZeroThatDoesNotComeIsNamed) {
  const absl::Status status = Agree(1, {{"/a.so", "11"}}, absl::ZeroDuration());
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), AllOf(HasSubstr("hashes of the plug-ins"), HasSubstr("0")));
}

TEST_F(AgreeOnPluginsTest, WithoutPluginsNobodyWaits) {
  EXPECT_EQ(Agree(1, {}, absl::ZeroDuration()), absl::OkStatus());
}

}  // namespace
}  // namespace dp::trainer
