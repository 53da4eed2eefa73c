#include "worker/trainer/model/metric_log.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/testing/full_disk.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

v1::Metric AMetric(const char* event) {
  v1::Metric metric;
  metric.set_event(event);
  metric.set_epoch(2);
  metric.set_epochs_total(4);
  metric.set_step(938);
  metric.set_loss(0.25);
  metric.set_accuracy(0.9);
  metric.set_seconds(12.5);
  return metric;
}

TEST(MetricLogTest, AnEpochTellsItsRateInWhatItsSamplesAre) {
  v1::Metric epoch = AMetric("epoch");
  epoch.set_images_per_second(8412);
  EXPECT_EQ(Readable(epoch), "epoch 2/4 loss 0.2500 8412 images/s");
  epoch.set_tokens_per_second(550000);
  EXPECT_EQ(Readable(epoch), "epoch 2/4 loss 0.2500 550000 tokens/s");
  EXPECT_EQ(Readable(AMetric("epoch")), "epoch 2/4 loss 0.2500");
}

TEST(MetricLogTest, TheStartSaysOnWhatAndInWhichPrecisionARankComputes) {
  v1::Metric start = AMetric("start");
  start.set_rank(1);
  start.set_world_size(2);
  start.set_device("NVIDIA H100");
  start.set_precision("bf16");
  start.set_backend("nccl");
  start.set_threads(1);
  EXPECT_EQ(Readable(start),
            "rank 1 of 2: training starts on NVIDIA H100 in bf16, backend nccl, threads 1");
}

TEST(MetricLogTest, AnEvaluationReadsAsOneLine) {
  EXPECT_EQ(Readable(AMetric("eval")), "epoch 2/4 test loss 0.2500 test accuracy 0.9000");
  v1::Metric without_labels = AMetric("eval");
  without_labels.clear_accuracy();
  EXPECT_EQ(Readable(without_labels), "epoch 2/4 test loss 0.2500");
  v1::Metric with_all = AMetric("eval");
  with_all.set_top5_accuracy(0.99);
  with_all.set_perplexity(12.345678);
  with_all.set_mean_absolute_error(0.5);
  with_all.set_r2(0.75);
  EXPECT_EQ(Readable(with_all),
            "epoch 2/4 test loss 0.2500 test accuracy 0.9000 top-5 0.9900 perplexity 12.35 mean "
            "absolute error 0.5 R2 0.7500");
}

TEST(MetricLogTest, TheEndTellsTheAccuracyWhereThereIsOne) {
  v1::Metric end = AMetric("end");
  EXPECT_EQ(Readable(end), "finished 938 steps in 12.5 s, test accuracy 0.9000");
  end.clear_accuracy();
  EXPECT_EQ(Readable(end), "finished 938 steps in 12.5 s");
}

TEST(MetricLogTest, WhoLeavesSaysWhereNothingIsSaved) {
  v1::Metric left = AMetric("handover");
  EXPECT_EQ(Readable(left), "leaves after step 938, as asked");
  left.set_message("nothing is saved");
  EXPECT_EQ(Readable(left), "leaves after step 938, as asked; nothing is saved");
}

TEST(MetricLogTest, TheBestCheckpointSaysWhy) {
  v1::Metric best = AMetric("best_checkpoint");
  best.set_message("accuracy 0.9123");
  EXPECT_EQ(Readable(best), "best checkpoint so far is of step 938: accuracy 0.9123");
}

TEST(MetricLogTest, AnEarlyStopSaysWhy) {
  v1::Metric stopped = AMetric("early_stop");
  stopped.set_message("loss has not improved");
  EXPECT_EQ(Readable(stopped), "stops early after step 938: loss has not improved");
}

TEST(MetricLogTest, StepsAreNotForPeople) { EXPECT_EQ(Readable(AMetric("step")), ""); }

TEST(MetricLogTest, ALineThatWasCutShortDoesNotSpoilTheNext) {
  const std::string path = ::testing::TempDir() + "cut_short.metrics";
  std::remove(path.c_str());
  MetricLog log = *MetricLog::Open(path, Clock::System());
  {
    FullDisk disk(10);
    log.Write(AMetric("step"));
  }
  log.Write(AMetric("eval"));
  std::ifstream file(path);
  std::string cut, whole;
  std::getline(file, cut);
  std::getline(file, whole);
  EXPECT_EQ(cut.size(), 10);
  EXPECT_THAT(whole, HasSubstr("\"event\":\"eval\""));
}

TEST(MetricLogTest, AFileThatCannotBeOpenedIsNamed) {
  const auto log = MetricLog::Open("/nonexistent/metrics", Clock::System());
  EXPECT_THAT(log.status().message(), HasSubstr("/nonexistent/metrics"));
}

}  // namespace
}  // namespace dp::trainer
