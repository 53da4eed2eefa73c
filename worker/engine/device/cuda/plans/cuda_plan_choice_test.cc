#include "worker/engine/device/cuda/plans/cuda_plan_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine::cuda {
namespace {

using ::testing::ElementsAre;

TEST(PlanChoiceTest, TheLeastMedianWins) {
  EXPECT_EQ(FastestCandidate({{3, 3, 3}, {2, 9, 2}, {4, 1, 4}}), 1);
}

TEST(PlanChoiceTest, WithinTheNoiseTheLibrarysFirstWins) {
  EXPECT_EQ(FastestCandidate({{1.01f}, {1.0f}, {1.005f}}), 0);
  EXPECT_EQ(FastestCandidate({{1.03f}, {1.015f}, {1.0f}}), 1);
}

TEST(PlanChoiceTest, WhatCannotBeRunIsNotChosen) { EXPECT_EQ(FastestCandidate({{}, {5}, {}}), 1); }

TEST(PlanChoiceTest, WhereNothingCanBeRunNothingIsChosen) {
  EXPECT_EQ(FastestCandidate({{}, {}}), absl::nullopt);
  EXPECT_EQ(FastestCandidate({}), absl::nullopt);
}

TEST(PlanChoiceTest, WhatIsMuchSlowerIsNotTimedAgain) {
  EXPECT_THAT(WorthTiming({{1.29f}, {1.31f}, {}, {1.0f}}), ElementsAre(0, 3));
  EXPECT_THAT(WorthTiming({{}, {}}), ElementsAre());
}

TEST(PlanChoiceTest, OneSlowRunDoesNotCount) {
  EXPECT_EQ(FastestCandidate({{1, 1, 100}, {1.5f, 1.5f, 1.5f}}), 0);
}

TEST(PlanChoiceTest, OfTwoRunsTheFasterCounts) {
  EXPECT_EQ(FastestCandidate({{2, 2}, {1, 100}}), 1);
}

}  // namespace
}  // namespace dp::engine::cuda
