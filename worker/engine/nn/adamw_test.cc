#include "worker/engine/nn/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dp::engine {
namespace {

// A matrix, followed by a bias.
ParameterLayout MatrixAndBias() {
  return {.parameters = {{.name = "w", .shape = {2, 2}, .offset = 0, .size = 4},
                         {.name = "b", .shape = {2}, .offset = 16, .size = 2}},
          .size = 32};
}

// The arrays of one training.
struct AdamWArrays {
  std::vector<float> values = std::vector<float>(32, 2.0f);
  std::vector<float> gradients = std::vector<float>(32);
  std::vector<float> first = std::vector<float>(32);
  std::vector<float> second = std::vector<float>(32);

  ParameterLayout layout = MatrixAndBias();

  void Step(const AdamWOptions& options, int64_t step) {
    AdamWStep(options, step, layout, gradients, {absl::MakeSpan(first), absl::MakeSpan(second)},
              absl::MakeSpan(values));
  }
};

TEST(AdamWTest, TheFirstStepIsTheLearningRateWhateverTheGradient) {
  AdamWArrays run;
  run.gradients[0] = 1e-3f;
  run.gradients[1] = -50;
  run.Step({.learning_rate = 0.5, .weight_decay = 0}, 1);
  EXPECT_NEAR(run.values[0], 1.5, 1e-4);
  EXPECT_NEAR(run.values[1], 2.5, 1e-6);
  EXPECT_EQ(run.values[2], 2);
}

// By hand: m = 0.19 and v = 0.001999. Divided by 0.19 and 0.001999, they give the mean gradient and
// the mean square.
TEST(AdamWTest, MomentsAreCorrectedForTheirBeginningAtZero) {
  AdamWArrays run;
  run.gradients[0] = 1;
  run.Step({.learning_rate = 0.1, .weight_decay = 0}, 1);
  run.Step({.learning_rate = 0.1, .weight_decay = 0}, 2);
  EXPECT_NEAR(run.first[0], 0.19, 1e-6);
  EXPECT_NEAR(run.second[0], 0.001999, 1e-8);
  EXPECT_NEAR(run.values[0], 1.8, 1e-5);
}

TEST(AdamWTest, DecayIsOfTheValueAloneAndOfMatricesAlone) {
  AdamWArrays run;
  run.Step({.learning_rate = 0.5, .weight_decay = 0.2}, 1);
  EXPECT_FLOAT_EQ(run.values[3], 1.8f);
  EXPECT_EQ(run.values[16], 2);
  EXPECT_EQ(run.first[3], 0);
  run.Step({.learning_rate = 0.5, .weight_decay = 0.2, .decay_all = true}, 2);
  EXPECT_FLOAT_EQ(run.values[16], 1.8f);
}

// By hand: the gradient 0 + 0.5 * 2 = 1 gives a full step, and the value does not decay besides.
TEST(AdamWTest, AdamAddsTheDecayToTheGradient) {
  AdamWArrays run;
  run.Step(
      {.learning_rate = 0.1, .weight_decay = 0.5, .decay_all = true, .decay_in_gradient = true}, 1);
  EXPECT_NEAR(run.first[0], 0.1, 1e-7);
  EXPECT_NEAR(run.values[0], 1.9, 1e-6);
  EXPECT_NEAR(run.values[16], 1.9, 1e-6);
}

TEST(AdamWTest, AdamWithoutDecayIsAdamWWithoutDecay) {
  AdamWArrays adam, adamw;
  for (int step = 1; step <= 3; ++step) {
    for (AdamWArrays* run : {&adam, &adamw}) run->gradients[0] = run->gradients[16] = 0.3f * step;
    adam.Step({.learning_rate = 0.1, .weight_decay = 0, .decay_in_gradient = true}, step);
    adamw.Step({.learning_rate = 0.1, .weight_decay = 0}, step);
  }
  EXPECT_EQ(adam.values, adamw.values);
}

TEST(AdamWTest, ParametersHaveTheirOwnOptions) {
  AdamWArrays run;
  run.gradients.assign(32, 1);
  run.layout.parameters[0].options = {.frozen = true};
  run.layout.parameters[1].options = {.learning_rate_factor = 0.5, .weight_decay = 1};
  run.Step({.learning_rate = 0.1, .weight_decay = 0}, 1);
  EXPECT_EQ(run.values[0], 2);
  EXPECT_EQ(run.first[0], 0);
  EXPECT_NEAR(run.values[16], 2 * 0.95 - 0.05, 1e-6);
}

TEST(AdamWTest, EpsilonIsAddedToTheRoot) {
  AdamWArrays run;
  run.gradients[0] = 1;
  run.Step({.learning_rate = 1, .epsilon = 1, .weight_decay = 0}, 1);
  EXPECT_NEAR(run.values[0], 1.5, 1e-5);
}

}  // namespace
}  // namespace dp::engine
