#include "worker/trainer/model/parameter_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

class ParameterGroupsTest : public ::testing::Test {
 protected:
  // Two layers, the last one first, as in a layout.
  engine::ParameterLayout layout_ = {.parameters = {{.name = "linear1.bias"},
                                                    {.name = "linear1.weight"},
                                                    {.name = "conv2d0.bias"},
                                                    {.name = "conv2d0.weight"}}};

  const engine::ParameterOptions& options(size_t i) const { return layout_.parameters[i].options; }
  std::string ErrorOf(const std::vector<ParameterGroup>& groups) {
    const absl::Status status = ApplyGroups(groups, layout_);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
};

TEST_F(ParameterGroupsTest, TheFirstGroupThatMatchesCounts) {
  ASSERT_EQ(
      ApplyGroups({{"conv2d0.*", {.frozen = true}}, {"*.bias", {.weight_decay = 0}}}, layout_),
      absl::OkStatus());
  EXPECT_EQ(options(0).weight_decay, 0);
  EXPECT_FALSE(options(0).frozen);
  EXPECT_EQ(options(1).weight_decay, std::nullopt);
  EXPECT_TRUE(options(2).frozen && options(3).frozen);
  EXPECT_EQ(options(2).weight_decay, std::nullopt);
}

TEST_F(ParameterGroupsTest, AGroupThatMatchesNothingIsNamedWithNamesNearIt) {
  EXPECT_EQ(ErrorOf({{"*.bias", {}}, {"linear2.weight", {}}}),
            "train.groups[1].match 'linear2.weight' matches no weight of the model, which has "
            "linear1.weight, conv2d0.weight, linear1.bias, conv2d0.bias");
  layout_.parameters.push_back({.name = "embedding.weight"});
  layout_.parameters.push_back({.name = "positions.weight"});
  EXPECT_THAT(ErrorOf({{"linear2.weight", {}}}), HasSubstr("which has linear1.weight, "));
  EXPECT_THAT(ErrorOf({{"linear2.weight", {}}}), HasSubstr(" and more"));
}

TEST_F(ParameterGroupsTest, AGroupBehindAnotherIsAnError) {
  EXPECT_EQ(ErrorOf({{"*", {}}, {"*.bias", {}}}),
            "train.groups[1].match '*.bias' matches only weights of groups before it; put it "
            "first, or leave it out");
}

TEST_F(ParameterGroupsTest, SomethingMustBeLeftToTrain) {
  EXPECT_THAT(ErrorOf({{"*", {.frozen = true}}}), HasSubstr("freezes every weight"));
}

TEST_F(ParameterGroupsTest, ASpecIsTaken) {
  v1::ParameterGroupSpec spec;
  spec.set_match("*.bias");
  EXPECT_EQ(GroupOf(spec).options.learning_rate_factor, 1);
  EXPECT_EQ(GroupOf(spec).options.weight_decay, std::nullopt);
  spec.set_weight_decay(0);
  spec.set_learning_rate_factor(0.5);
  EXPECT_EQ(GroupOf(spec).options.weight_decay, 0);
  EXPECT_EQ(GroupOf(spec).options.learning_rate_factor, 0.5);
}

TEST_F(ParameterGroupsTest, AGroupOfRunningStatisticsIsRefused) {
  const auto layers = *model::CheckShapes({{{"bn", model::BatchNorm{}}}}, {4});
  engine::ParameterLayout layout = engine::LayOut(layers);
  const absl::Status status =
      ApplyGroups({{.match = "bn.running_mean", .options = {.frozen = true}}}, layout);
  EXPECT_EQ(status.message(),
            "train.groups[0].match 'bn.running_mean' matches only running statistics, which no "
            "optimizer changes; leave it out");
  EXPECT_EQ(ApplyGroups({{.match = "bn.*", .options = {.learning_rate_factor = 2}}}, layout),
            absl::OkStatus());
  for (const engine::Parameter& each : layout.parameters)
    EXPECT_EQ(each.options.learning_rate_factor, each.is_statistic() ? 1 : 2) << each.name;
}

}  // namespace
}  // namespace dp::trainer
