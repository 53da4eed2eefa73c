#include "worker/engine/nn/outer_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

ParameterLayout LayoutOf(int64_t weights, int64_t statistics) {
  ParameterLayout layout;
  layout.parameters = {{.name = "w", .shape = {static_cast<int>(weights)}, .size = weights}};
  layout.size = weights;
  if (statistics == 0) return layout;
  layout.parameters.push_back({.name = "mean",
                               .shape = {static_cast<int>(statistics)},
                               .offset = weights,
                               .size = statistics,
                               .momentum = 0.1});
  layout.size += statistics;
  return layout;
}

// Two ranks, which have moved from (8, 4) to (6, 5) and (4, 1).
std::vector<float> MeanOfTwoRanks(const std::vector<float>& anchor) {
  std::vector<float> one = {6, 5}, other = {4, 1};
  OuterGradient(anchor, absl::MakeSpan(one));
  OuterGradient(anchor, absl::MakeSpan(other));
  return {(one[0] + other[0]) / 2, (one[1] + other[1]) / 2};
}

TEST(OuterStepTest, TheGradientIsHowFarTheRanksHaveMoved) {
  EXPECT_THAT(MeanOfTwoRanks({8, 4}), ElementsAre(3, 1));
}

TEST(OuterStepTest, ARateOfOneWithoutMomentumGivesTheMeanOfTheRanks) {
  std::vector<float> anchor = {8, 4}, velocity = {0, 0};
  OuterStep({.learning_rate = 1, .momentum = 0, .nesterov = false}, LayoutOf(2, 0),
            MeanOfTwoRanks(anchor), absl::MakeSpan(velocity), absl::MakeSpan(anchor));
  EXPECT_THAT(anchor, ElementsAre(5, 3));
}

// As torch.optim.SGD(lr=0.5, momentum=0.5, nesterov=True) over these gradients.
TEST(OuterStepTest, MomentumCarriesOverFromRoundToRound) {
  const OuterOptions options = {.learning_rate = 0.5, .momentum = 0.5, .nesterov = true};
  std::vector<float> anchor = {8}, velocity = {0};
  OuterStep(options, LayoutOf(1, 0), {4}, absl::MakeSpan(velocity), absl::MakeSpan(anchor));
  EXPECT_THAT(velocity, ElementsAre(4));
  EXPECT_THAT(anchor, ElementsAre(5));  // 8 - 0.5 (4 + 0.5 4)
  OuterStep(options, LayoutOf(1, 0), {-2}, absl::MakeSpan(velocity), absl::MakeSpan(anchor));
  EXPECT_THAT(velocity, ElementsAre(0));
  EXPECT_THAT(anchor, ElementsAre(6));  // 5 - 0.5 (-2 + 0.5 0)
}

TEST(OuterStepTest, WithoutNesterovTheVelocityIsTheStep) {
  std::vector<float> anchor = {8}, velocity = {2};
  OuterStep({.learning_rate = 0.5, .momentum = 0.5, .nesterov = false}, LayoutOf(1, 0), {4},
            absl::MakeSpan(velocity), absl::MakeSpan(anchor));
  EXPECT_THAT(velocity, ElementsAre(5));
  EXPECT_THAT(anchor, ElementsAre(5.5));
}

TEST(OuterStepTest, StatisticsBecomeTheMeanWhateverTheOptions) {
  std::vector<float> anchor = {8, 10}, velocity = {0, 0};
  OuterStep({.learning_rate = 0.5, .momentum = 0.5, .nesterov = true}, LayoutOf(1, 1), {0, 3},
            absl::MakeSpan(velocity), absl::MakeSpan(anchor));
  EXPECT_THAT(anchor, ElementsAre(8, 7));
  EXPECT_THAT(velocity, ElementsAre(0, 0));
}

}  // namespace
}  // namespace dp::engine
