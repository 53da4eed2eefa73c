#include "worker/trainer/model/early_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "worker/trainer/model/evaluation.h"

namespace dp::trainer {
namespace {

// Evaluations after each hundred steps, with these losses.
EarlyStopState After(const EarlyStopPlan& plan, const std::vector<double>& losses,
                     EarlyStopState state = {}) {
  for (const double loss : losses) {
    state = Observe(plan, state, {.loss = loss, .accuracy = 1 - loss}, state.last_step + 100);
  }
  return state;
}

TEST(EarlyStopTest, StopsAfterEvaluationsInARowWithoutImprovement) {
  const EarlyStopPlan plan = {.patience = 2};
  EXPECT_FALSE(WhyStopped(plan, After(plan, {})));
  EXPECT_FALSE(WhyStopped(plan, After(plan, {0.5, 0.6, 0.4, 0.5})));
  EXPECT_EQ(WhyStopped(plan, After(plan, {0.5, 0.6, 0.4, 0.5, 0.4})),
            "loss of the test set has not improved on 0.4 of step 300 in 2 evaluations");
}

TEST(EarlyStopTest, AnAccuracyImprovesUpwards) {
  const EarlyStopPlan plan = {.metric = WatchedMetric::kAccuracy, .patience = 1};
  EXPECT_FALSE(WhyStopped(plan, After(plan, {0.5, 0.4})));
  EXPECT_TRUE(WhyStopped(plan, After(plan, {0.4, 0.5})));
}

TEST(EarlyStopTest, AnImprovementIsLargerThanItsLeast) {
  const EarlyStopPlan plan = {.patience = 1, .min_delta = 0.25};
  EXPECT_FALSE(WhyStopped(plan, After(plan, {1, 0.5})));
  EXPECT_EQ(WhyStopped(plan, After(plan, {1, 0.75})),
            "loss of the test set has not improved on 1 of step 100 by more than 0.25 in 1 "
            "evaluation");
}

TEST(EarlyStopTest, WhatIsNoNumberIsNoImprovement) {
  const EarlyStopPlan plan = {.patience = 2};
  EXPECT_EQ(After(plan, {0.5, NAN, INFINITY}).best, 0.5);
  EXPECT_TRUE(WhyStopped(plan, After(plan, {0.5, NAN, -INFINITY})));
  EXPECT_FALSE(WhyStopped(plan, After(plan, {NAN, 0.5, NAN})));
  EXPECT_EQ(WhyStopped(plan, After(plan, {NAN, NAN})),
            "loss of the test set was no number in 2 evaluations");
}

// A training that goes on from the end of an epoch evaluates it again.
TEST(EarlyStopTest, AnEvaluationThatIsMadeAgainCountsOnce) {
  const EarlyStopPlan plan = {.patience = 2};
  const EarlyStopState state = After(plan, {0.4, 0.5});
  EXPECT_EQ(Observe(plan, state, {.loss = 0.5}, state.last_step), state);
}

TEST(EarlyStopTest, AnotherMetricBeginsAnew) {
  const EarlyStopPlan loss = {.patience = 1};
  const EarlyStopPlan accuracy = {.metric = WatchedMetric::kAccuracy, .patience = 1};
  const EarlyStopState state = After(loss, {0.4, 0.5});
  EXPECT_FALSE(WhyStopped(accuracy, state));
  EXPECT_EQ(After(accuracy, {0.5}, state).best, 0.5);
}

TEST(WatchedMetricTest, NamesAreReadBack) {
  using enum WatchedMetric;
  for (const WatchedMetric metric : {kLoss, kAccuracy, kTop5Accuracy, kMeanAbsoluteError, kR2}) {
    EXPECT_EQ(ParseWatchedMetric(NameOf(metric)), metric);
  }
  EXPECT_FALSE(ParseWatchedMetric("speed"));
}

TEST(WatchedMetricTest, WordsHaveTheValueBitByBit) {
  EXPECT_EQ(InWords(WatchedMetric::kAccuracy, 0.9123), "accuracy 0.9123");
  for (const double value : {1.0 / 3, 0.1, -2e-9}) {
    EXPECT_EQ(ValueInWords(WatchedMetric::kR2, InWords(WatchedMetric::kR2, value)), value);
  }
  EXPECT_FALSE(ValueInWords(WatchedMetric::kLoss, "accuracy 0.9"));
  EXPECT_FALSE(ValueInWords(WatchedMetric::kLoss, ""));
}

}  // namespace
}  // namespace dp::trainer
