#include "worker/engine/nn/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dp::engine {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

// The factors of all steps of a training.
std::vector<double> FactorsOfAll(const LearningRateSchedule& schedule, int64_t steps,
                                 int64_t steps_of_epoch = 1) {
  std::vector<double> factors;
  for (int64_t step = 1; step <= steps; ++step) {
    factors.push_back(LearningRateFactor(schedule, step, steps_of_epoch, steps));
  }
  return factors;
}

// The expected numbers are PyTorch's, from schedulers with the same settings.
void ExpectFactors(const std::vector<double>& factors, const std::vector<double>& expected) {
  EXPECT_THAT(factors, Pointwise(DoubleNear(1e-12), expected));
}

TEST(LearningRateTest, WithoutAScheduleTheRateIsConstant) {
  EXPECT_THAT(FactorsOfAll({}, 3), ElementsAre(1, 1, 1));
}

TEST(LearningRateTest, WarmUpGrowsToTheWholeRate) {
  EXPECT_THAT(FactorsOfAll({.warmup_steps = 4}, 6), ElementsAre(0.25, 0.5, 0.75, 1, 1, 1));
}

TEST(LearningRateTest, ACosineFallsUntilTheEndOfTheTraining) {
  ExpectFactors(
      FactorsOfAll({.decay = CosineDecay{.factor_min = 0.1}}, 10),
      {1.0, 0.9779754323328191, 0.9140576474687263, 0.8145033635316129, 0.6890576474687263, 0.55,
       0.41094235253127376, 0.2854966364683872, 0.18594235253127372, 0.12202456766718092});
}

TEST(LearningRateTest, ACosineBeginsAfterTheWarmUp) {
  ExpectFactors(
      FactorsOfAll({.warmup_steps = 4, .decay = CosineDecay{.factor_min = 0.1}}, 10),
      {0.25, 0.5, 0.75, 1.0, 1.0, 0.9397114317029974, 0.775, 0.55, 0.325, 0.1602885682970026});
}

TEST(LearningRateTest, ACosineStaysAtItsEnd) {
  const std::vector<double> factors =
      FactorsOfAll({.decay = CosineDecay{.factor_min = 0.25, .steps = 2}}, 5);
  ExpectFactors(factors, {1, 0.625, 0.25, 0.25, 0.25});
}

TEST(LearningRateTest, ALineFallsAndStaysAtItsEnd) {
  ExpectFactors(FactorsOfAll({.decay = LinearDecay{.factor_min = 0.2, .steps = 8}}, 10),
                {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2});
}

TEST(LearningRateTest, ALineFallsUntilTheEndOfTheTraining) {
  ExpectFactors(FactorsOfAll({.warmup_steps = 1, .decay = LinearDecay{}}, 5),
                {1.0, 1.0, 0.75, 0.5, 0.25});
}

TEST(LearningRateTest, StepsOfADecayCountFromTheBeginning) {
  const std::vector<double> factors =
      FactorsOfAll({.warmup_steps = 2, .decay = StepDecay{.every_steps = 3, .factor = 0.5}}, 7);
  ExpectFactors(factors, {0.5, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25});
}

TEST(LearningRateTest, EpochsOfADecayAreWholeEpochs) {
  const std::vector<double> factors =
      FactorsOfAll({.decay = StepDecay{.every_epochs = 2, .factor = 0.5}}, 9, /*steps_of_epoch=*/2);
  ExpectFactors(factors, {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25});
}

TEST(LearningRateTest, SeveralDecaysMultiply) {
  ExpectFactors(FactorsOfAll({.decay = MultiStepDecay{.at_steps = {2, 5}, .factor = 0.1}}, 8),
                {1.0, 1.0, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01});
  ExpectFactors(FactorsOfAll({.decay = MultiStepDecay{.at_epochs = {1, 3}, .factor = 0.5}}, 8,
                             /*steps_of_epoch=*/2),
                {1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25});
}

// Warm-up may be all of a training.
TEST(LearningRateTest, ATrainingMayEndInItsWarmUp) {
  ExpectFactors(FactorsOfAll({.warmup_steps = 8, .decay = CosineDecay{}}, 2), {0.125, 0.25});
}

}  // namespace
}  // namespace dp::engine
