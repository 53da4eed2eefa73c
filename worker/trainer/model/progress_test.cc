#include "worker/trainer/model/progress.h"

#include "base/testing/settable_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/testing/read_metrics.h"

namespace dp::trainer {
namespace {

class ProgressTest : public ::testing::Test {
 protected:
  Progress Make(int rank) {
    std::remove(path_.c_str());
    log_.emplace(*MetricLog::Open(path_, clock_));
    return Progress({.rank = rank,
                     .world_size = 2,
                     .threads = 1,
                     .backend = "gloo",
                     .epochs_total = 3,
                     .steps_total = 30},
                    *log_, clock_);
  }

  std::vector<v1::Metric> Metrics() { return ReadMetrics(path_); }

  const std::string path_ = ::testing::TempDir() + "progress_test.metrics";
  SettableClock clock_;
  std::optional<MetricLog> log_;
};

TEST_F(ProgressTest, AnEpochsLossWeighsStepsByTheirSamples) {
  Progress progress = Make(/*rank=*/0);
  progress.EpochBegan(1);
  progress.StepDone({.loss = 1.0, .samples = 100, .learning_rate = 0.5});
  progress.StepDone({.loss = 4.0, .samples = 50, .learning_rate = 0.25});
  clock_.Advance(absl::Seconds(3));
  progress.EpochDone();
  const v1::Metric epoch = Metrics().back();
  EXPECT_EQ(epoch.event(), "epoch");
  EXPECT_DOUBLE_EQ(epoch.loss(), 2.0);
  EXPECT_DOUBLE_EQ(epoch.images_per_second(), 50.0);
  EXPECT_EQ(epoch.step(), 2);
}

TEST_F(ProgressTest, StepsTellTheirLearningRateAndAnEpochThatOfItsLastStep) {
  Progress progress = Make(/*rank=*/0);
  progress.EpochBegan(1);
  progress.StepDone({.loss = 1, .samples = 10, .learning_rate = 0.5});
  EXPECT_DOUBLE_EQ(Metrics().back().learning_rate(), 0.5);
  EXPECT_FALSE(Metrics().back().has_gradient_norm());
  progress.StepDone({.loss = 1, .samples = 10, .gradient_norm = 3});
  EXPECT_DOUBLE_EQ(Metrics().back().gradient_norm(), 3);
  progress.StepDone({.loss = 1, .samples = 10, .learning_rate = 0.25});
  progress.EpochDone();
  EXPECT_DOUBLE_EQ(Metrics().back().learning_rate(), 0.25);
}

TEST_F(ProgressTest, AnEpochThatEndsAsItIsResumedHasNoRate) {
  Progress progress = Make(/*rank=*/0);
  progress.Resumed(
      {.step = 1, .epoch = 1, .step_of_epoch = 1, .epoch_loss_sum = 10, .epoch_samples = 10}, {});
  progress.EpochBegan(1);
  clock_.Advance(absl::Seconds(2));
  progress.EpochDone();
  const v1::Metric epoch = Metrics().back();
  EXPECT_EQ(epoch.samples(), 10);
  EXPECT_FALSE(epoch.has_images_per_second());
}

TEST_F(ProgressTest, TheRateOfTextsIsInTokens) {
  log_.emplace(*MetricLog::Open(path_, clock_));
  Progress progress({.tokens_per_sample = 64}, *log_, clock_);
  progress.EpochBegan(1);
  clock_.Advance(absl::Seconds(2));
  progress.StepDone({.loss = 1.0, .samples = 10});
  const v1::Metric step = Metrics().back();
  EXPECT_DOUBLE_EQ(step.tokens_per_second(), 320.0);
  EXPECT_FALSE(step.has_images_per_second());
}

TEST_F(ProgressTest, OnlyRankZeroTellsStepsButEveryRankItsStartAndEnd) {
  Progress progress = Make(/*rank=*/1);
  progress.Started();
  progress.EpochBegan(1);
  progress.StepDone({.loss = 1.0, .samples = 100});
  progress.EpochDone();
  progress.Evaluated({.loss = 1, .accuracy = 0.5, .samples = 10});
  progress.Ended();
  const std::vector<v1::Metric> metrics = Metrics();
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].event(), "start");
  EXPECT_EQ(metrics[0].rank(), 1);
  EXPECT_EQ(metrics[0].device(), "cpu");
  EXPECT_EQ(metrics[0].precision(), "float32");
  EXPECT_EQ(metrics[1].event(), "end");
  EXPECT_FALSE(metrics[1].has_accuracy());
}

TEST_F(ProgressTest, WhoLeavesSaysWhatIsNotSaved) {
  Progress progress = Make(/*rank=*/0);
  progress.HandedOver(/*saves=*/true, absl::OkStatus());
  EXPECT_EQ(Metrics().back().message(), "");
  progress.HandedOver(/*saves=*/true, absl::InternalError("the disk is full"));
  EXPECT_EQ(Metrics().back().message(),
            "this step is not saved: it goes on from the checkpoint before, or begins anew: the "
            "disk is full");
}

TEST_F(ProgressTest, TheEndRepeatsTheLastAccuracy) {
  Progress progress = Make(/*rank=*/0);
  progress.Started();
  progress.Evaluated({.loss = 1, .accuracy = 0.5, .samples = 10});
  progress.Evaluated({.loss = 1, .accuracy = 0.75, .samples = 10});
  clock_.Advance(absl::Seconds(7));
  progress.Ended();
  EXPECT_DOUBLE_EQ(Metrics().back().accuracy(), 0.75);
  EXPECT_DOUBLE_EQ(Metrics().back().seconds(), 7);
}

}  // namespace
}  // namespace dp::trainer
