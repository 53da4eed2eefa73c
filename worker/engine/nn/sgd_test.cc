#include "worker/engine/nn/sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

TEST(SgdTest, StepsDownTheGradient) {
  std::vector<float> velocity = {0, 0}, values = {1, 2};
  SgdStep({.learning_rate = 0.5f}, {2, -4}, absl::MakeSpan(velocity), absl::MakeSpan(values));
  EXPECT_THAT(values, ElementsAre(0, 4));
}

TEST(SgdTest, MomentumKeepsTheSumOfPastGradients) {
  std::vector<float> velocity = {0}, values = {0};
  const SgdOptions options = {.learning_rate = 1, .momentum = 0.5f};
  SgdStep(options, {4}, absl::MakeSpan(velocity), absl::MakeSpan(values));
  SgdStep(options, {4}, absl::MakeSpan(velocity), absl::MakeSpan(values));
  EXPECT_THAT(velocity, ElementsAre(6));
  EXPECT_THAT(values, ElementsAre(-10));
}

TEST(SgdTest, NesterovLooksAheadByTheVelocity) {
  std::vector<float> velocity = {0}, values = {0};
  const SgdOptions options = {.learning_rate = 1, .momentum = 0.5f, .nesterov = true};
  SgdStep(options, {4}, absl::MakeSpan(velocity), absl::MakeSpan(values));
  EXPECT_THAT(velocity, ElementsAre(4));
  EXPECT_THAT(values, ElementsAre(-6));
  SgdStep(options, {4}, absl::MakeSpan(velocity), absl::MakeSpan(values));
  EXPECT_THAT(velocity, ElementsAre(6));
  EXPECT_THAT(values, ElementsAre(-13));
}

TEST(SgdTest, WeightDecayEntersTheVelocity) {
  std::vector<float> velocity = {0}, values = {8};
  SgdStep({.learning_rate = 0.5f, .momentum = 0.5f, .weight_decay = 0.25f}, {0},
          absl::MakeSpan(velocity), absl::MakeSpan(values));
  EXPECT_THAT(velocity, ElementsAre(2));
  EXPECT_THAT(values, ElementsAre(7));
}

}  // namespace
}  // namespace dp::engine
