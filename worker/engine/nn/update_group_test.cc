#include "worker/engine/nn/update_group.h"

#include <gtest/gtest.h>

namespace dp::engine {
namespace {

// Three parameters with gaps behind them.
ParameterLayout ThreeParameters() {
  return {.parameters = {{.name = "a", .offset = 0, .size = 10},
                         {.name = "b", .offset = 16, .size = 5},
                         {.name = "c", .offset = 32, .size = 16}},
          .size = 48};
}

TEST(UpdateGroupTest, OptionsOfAParameterReplaceTheOptimizers) {
  Parameter parameter;
  EXPECT_EQ(GroupOf(parameter, 0.5), (UpdateGroup{.weight_decay = 0.5}));
  parameter.options = {.learning_rate_factor = 3, .weight_decay = 0, .frozen = true};
  EXPECT_EQ(GroupOf(parameter, 0.5), (UpdateGroup{3, 0, true}));
}

TEST(TrainedRangesTest, AreOneWithoutFrozenParameters) {
  const auto ranges = TrainedRanges(ThreeParameters());
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].first, 0);
  EXPECT_EQ(ranges[0].size, 48);
}

TEST(TrainedRangesTest, LeaveOutFrozenParameters) {
  ParameterLayout layout = ThreeParameters();
  layout.parameters[1].options.frozen = true;
  const auto ranges = TrainedRanges(layout);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].size, 16);
  EXPECT_EQ(ranges[1].first, 32);
  layout.parameters[0].options.frozen = layout.parameters[2].options.frozen = true;
  EXPECT_TRUE(TrainedRanges(layout).empty());
}

}  // namespace
}  // namespace dp::engine
