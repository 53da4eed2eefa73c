#include "proto/job/evaluation_check.h"

#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

using ::testing::HasSubstr;

TEST(EvaluationCheckTest, AConfusionMatrixNeedsLabelsAndFewClasses) {
  const std::string confusion = "train.metrics.confusionMatrix=true";
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {confusion})), absl::OkStatus());
  EXPECT_THAT(
      CheckJob(Parsed(kMinimal,
                      {confusion, "train.model={layers: [{flatten: {}}, {linear: {out: 101}}]}"}))
          .message(),
      HasSubstr("at most 100 values, and the last layer 'linear1' gives 101"));
  EXPECT_THAT(CheckJob(Parsed(kMinimal, {confusion, "train.loss={norm: {}}"})).message(),
              HasSubstr("counts labels, and the loss takes none"));
}

TEST(EvaluationCheckTest, AnEarlyStopHasDefaults) {
  const v1::EarlyStopSpec stop = Parsed(kMinimal, {"train.earlyStop={}"}).spec.train().early_stop();
  EXPECT_EQ(stop.metric(), "loss");
  EXPECT_EQ(stop.patience(), 3);
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"train.earlyStop={}"})), absl::OkStatus());
}

TEST(EvaluationCheckTest, AnEarlyStopWatchesWhatEvaluationsTake) {
  const std::string stop = "train.earlyStop.";
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {stop + "metric=top5Accuracy", stop + "minDelta=0.01"})),
            absl::OkStatus());
  EXPECT_THAT(ErrorSetting(stop + "metric=r2"),
              HasSubstr("is \"r2\"; expected loss, accuracy, top5Accuracy"));
  EXPECT_THAT(ErrorSetting(stop + "patience=0"), HasSubstr("is 0; expected 1 or more"));
  EXPECT_THAT(ErrorSetting(stop + "minDelta=-1"), HasSubstr("is -1; expected 0 or more"));
  EXPECT_THAT(CheckJob(Parsed(kMinimal, {"train.earlyStop={}", "train.evaluateEvery=0"})).message(),
              HasSubstr("train.earlyStop needs evaluations, and train.evaluateEvery is 0"));
  EXPECT_THAT(
      CheckJob(Parsed(kMinimal, {stop + "metric=accuracy", "train.loss={norm: {}}"})).message(),
      HasSubstr("is \"accuracy\"; expected loss"));
  const auto five = [](const v1::DataSpec&) {
    return SampleForm{.shape = {4}, .classes = 5, .exactly = true};
  };
  EXPECT_THAT(CheckJob(Parsed(kMinimal, {stop + "metric=top5Accuracy", "train.data.classes=5",
                                         "train.model={layers: [{linear: {}}]}"}),
                       five)
                  .message(),
              HasSubstr("which needs 6 values, and the last layer 'linear0' gives 5"));
}

TEST(EvaluationCheckTest, TheBestCheckpointIsThatOfAMetric) {
  const std::string checkpoint = "train.checkpoint={dir: /a, everySteps: 5, best: {}}";
  const auto job = Parsed(kMinimal, {checkpoint, "train.output={weights: /a/w, best: true}"});
  EXPECT_EQ(job.spec.train().checkpoint().best().metric(), "loss");
  EXPECT_EQ(CheckJob(job), absl::OkStatus());
  const auto error = [](const std::vector<std::string>& overrides) {
    return std::string(CheckJob(Parsed(kMinimal, overrides)).message());
  };
  EXPECT_THAT(error({checkpoint, "train.checkpoint.best.metric=speed"}),
              HasSubstr("train.checkpoint.best.metric is \"speed\"; expected loss, accuracy"));
  EXPECT_THAT(error({checkpoint, "train.evaluateEvery=0"}),
              HasSubstr("train.checkpoint.best needs evaluations"));
  EXPECT_THAT(error({checkpoint, "train.output.best=true"}),
              HasSubstr("train.output.weights is missing"));
  EXPECT_THAT(error({"train.output={weights: /a/w, best: true}"}),
              HasSubstr("train.checkpoint.best is missing; give it, as best: {}"));
}

}  // namespace
}  // namespace dp
