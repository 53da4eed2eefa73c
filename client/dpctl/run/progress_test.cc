#include "client/dpctl/run/progress.h"

#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

constexpr char kStart[] = R"({"event":"start","rank":0,"epochs_total":4,"steps_total":400})";
constexpr char kStep[] =
    R"({"event":"step","epoch":2,"step":150,"loss":0.41234,"images_per_second":5120.4})";

TEST(ProgressTest, TheLastEvaluationGivesTheAccuracy) {
  Progress progress;
  progress.Add(kStart);
  progress.Add(R"({"event":"eval","epoch":1,"loss":0.5,"accuracy":0.8})");
  progress.Add(R"({"event":"epoch","epoch":2,"loss":0.5,"images_per_second":5000})");
  progress.Add(R"({"event":"eval","epoch":2,"loss":0.25,"accuracy":0.91})");
  EXPECT_EQ(progress.test_accuracy(), 0.91);
}

TEST(ProgressTest, TheBarShowsStepLossAndSpeed) {
  Progress progress;
  EXPECT_EQ(progress.Bar(200), "");
  progress.Add(kStart);
  progress.Add(kStep);
  EXPECT_EQ(progress.Bar(200),
            "epoch 2/4 [=========>              ] step 150/400  loss 0.4123  5120 images/s");
  EXPECT_EQ(progress.Bar(9), "epoch 2/4");
}

TEST(ProgressTest, TheSpeedOfTextsIsInTokens) {
  Progress progress;
  progress.Add(R"({"event":"step","epoch":2,"step":150,"loss":2.5,"tokens_per_second":12345.6})");
  EXPECT_EQ(progress.Bar(200), "epoch 2 step 150  loss 2.5000  12346 tokens/s");
}

TEST(ProgressTest, AStepWithoutASpeedHasNoneInTheBar) {
  Progress progress;
  progress.Add(R"({"event":"step","epoch":2,"step":150,"loss":2.5})");
  EXPECT_EQ(progress.Bar(200), "epoch 2 step 150  loss 2.5000");
}

TEST(ProgressTest, WithoutTotalsThereIsNoBarToFill) {
  Progress progress;
  progress.Add(kStep);
  EXPECT_EQ(progress.Bar(200), "epoch 2 step 150  loss 0.4123  5120 images/s");
}

TEST(ProgressTest, WhatIsNoMetricCountsAsNothing) {
  Progress progress;
  for (const char* line : {"", "{", "[]", "\xff", R"({"event":"eval","accuracy":"x"})"})
    progress.Add(line);
  progress.Add(R"({"event":"checkpoint","new_field":1})");
  EXPECT_EQ(progress.Bar(200), "");
  EXPECT_FALSE(progress.test_accuracy().has_value());
}

TEST(ProgressTest, TheEndCarriesTheAccuracyToo) {
  Progress progress;
  progress.Add(R"({"event":"end","step":400,"accuracy":0.9})");
  EXPECT_EQ(progress.test_accuracy(), 0.9);
  progress.Add(R"({"event":"end","step":400})");  // from another rank
  EXPECT_EQ(progress.test_accuracy(), 0.9);
}

}  // namespace
}  // namespace dp::ctl
