#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

using ::testing::HasSubstr;

// The check of the minimal job with these overrides.
absl::Status CheckSetting(const std::vector<std::string>& overrides) {
  return CheckJob(Parsed(kMinimal, overrides));
}

std::string ErrorOfSchedule(const std::string& schedule) {
  return ErrorSetting("train.schedule={" + schedule + "}");
}

TEST(UpdateCheckTest, AdamIsFilledInAndChecked) {
  const std::string adam = "train.optimizer={adam: {learningRate: 0.1}}";
  const v1::AdamSpec filled = Parsed(kMinimal, {adam}).spec.train().optimizer().adam();
  EXPECT_EQ(filled.beta1(), 0.9);
  EXPECT_EQ(filled.beta2(), 0.999);
  EXPECT_EQ(filled.epsilon(), 1e-8);
  EXPECT_EQ(CheckSetting({adam}), absl::OkStatus());
  EXPECT_THAT(ErrorSetting("train.optimizer={adam: {}}"),
              HasSubstr("train.optimizer.adam.learningRate is missing; give one"));
  EXPECT_THAT(ErrorSetting("train.optimizer={adam: {learningRate: 1, beta1: 1}}"),
              HasSubstr("adam.beta1 is 1; expected at least 0 and below 1"));
  EXPECT_THAT(ErrorSetting("train.optimizer={adam: {learningRate: 1, weightDecay: -1}}"),
              HasSubstr("adam.weightDecay is -1; expected 0 or more"));
  EXPECT_THAT(ErrorSetting("train.optimizer={adam: {learningRate: 1, epsilon: 0}}"),
              HasSubstr("adam.epsilon is 0; expected more than 0"));
}

TEST(UpdateCheckTest, SchedulesAreFilledIn) {
  const auto schedule = [](const std::string& text) {
    return Parsed(kMinimal, {"train.schedule={" + text + "}"}).spec.train().schedule();
  };
  EXPECT_EQ(schedule("step: {everyEpochs: 2}").step().factor(), 0.1);
  EXPECT_EQ(schedule("multiStep: {atSteps: [2]}").multi_step().factor(), 0.1);
  EXPECT_EQ(schedule("step: {everyEpochs: 2, factor: 0.5}").step().factor(), 0.5);
}

TEST(UpdateCheckTest, GoodSchedulesPass) {
  for (const std::string schedule :
       {"{}", "{warmupSteps: 10}", "{cosine: {}}", "{warmupSteps: 3, cosine: {minFactor: 0.1}}",
        "{linear: {steps: 100}}", "{step: {everySteps: 5}}", "{multiStep: {atEpochs: [30, 60]}}"}) {
    EXPECT_EQ(CheckSetting({"train.schedule=" + schedule}), absl::OkStatus()) << schedule;
  }
}

TEST(UpdateCheckTest, ValuesOfASchedule) {
  EXPECT_THAT(ErrorOfSchedule("warmupSteps: -1"),
              HasSubstr("train.schedule.warmupSteps is -1; expected 0 or more"));
  EXPECT_THAT(ErrorOfSchedule("cosine: {minFactor: 1.5}"),
              HasSubstr("cosine.minFactor is 1.5; expected 0 to 1"));
  EXPECT_THAT(ErrorOfSchedule("cosine: {steps: -2}"), HasSubstr("cosine.steps is -2; expected 0"));
  EXPECT_THAT(ErrorOfSchedule("linear: {minFactor: -1}"),
              HasSubstr("linear.minFactor is -1; expected 0 to 1"));
  EXPECT_THAT(ErrorOfSchedule("step: {}"),
              HasSubstr("train.schedule.step has neither everyEpochs nor everySteps; give one of "
                        "them, as everyEpochs: 30"));
  EXPECT_THAT(ErrorOfSchedule("step: {everyEpochs: 1, everySteps: 2}"),
              HasSubstr("has both everyEpochs and everySteps; give one of them"));
  EXPECT_THAT(ErrorOfSchedule("step: {everyEpochs: 1, factor: 0}"),
              HasSubstr("step.factor is 0; expected more than 0"));
  EXPECT_THAT(ErrorOfSchedule("multiStep: {factor: 0.5}"),
              HasSubstr("multiStep has neither atEpochs nor atSteps; give one of them, as "
                        "atEpochs: [30, 60]"));
  EXPECT_THAT(ErrorOfSchedule("multiStep: {atEpochs: [5, 5]}"),
              HasSubstr("atEpochs[1] is 5; expected 6 or more"));
  EXPECT_THAT(ErrorOfSchedule("multiStep: {atSteps: [0]}"),
              HasSubstr("atSteps[0] is 0; expected 1 or more"));
}

TEST(UpdateCheckTest, GroupsOfWeights) {
  const auto error = [](const std::string& group) {
    return ErrorSetting("train.groups=[{match: '*.bias', frozen: true}, " + group + "]");
  };
  EXPECT_EQ(CheckSetting({"train.groups=[{match: '*.bias', weightDecay: 0}, "
                          "{match: 'conv*', learningRateFactor: 0.1}, {match: a, frozen: true}]"}),
            absl::OkStatus());
  EXPECT_THAT(error("{frozen: true}"), HasSubstr("train.groups[1].match is missing; give names"));
  EXPECT_THAT(error("{match: a}"),
              HasSubstr("train.groups[1] changes nothing; give weightDecay, learningRateFactor"));
  EXPECT_THAT(error("{match: a, frozen: true, weightDecay: 0}"),
              HasSubstr("train.groups[1] is frozen, so its weights take no steps; leave"));
  EXPECT_THAT(error("{match: a, weightDecay: -1}"),
              HasSubstr("groups[1].weightDecay is -1; expected 0 or more"));
  EXPECT_THAT(error("{match: a, learningRateFactor: 0}"),
              HasSubstr("groups[1].learningRateFactor is 0; expected more than 0"));
  std::string many = "{match: a, frozen: true}";
  for (int i = 0; i < 64; ++i) many += ", {match: a, frozen: true}";
  EXPECT_THAT(error(many), HasSubstr("train.groups is a list of 66; expected at most 64"));
}

TEST(UpdateCheckTest, TheAverageIsFilledInAndChecked) {
  const client::JobFile job = Parsed(kMinimal, {"train.ema={decay: 0.9}"});
  EXPECT_TRUE(job.spec.train().ema().evaluate());
  EXPECT_EQ(CheckJob(job), absl::OkStatus());
  EXPECT_FALSE(
      Parsed(kMinimal, {"train.ema={decay: 0.9, evaluate: false}"}).spec.train().ema().evaluate());
  EXPECT_THAT(ErrorSetting("train.ema={}"),
              HasSubstr("train.ema.decay is missing; give one, as decay: 0.999"));
  EXPECT_THAT(ErrorSetting("train.ema={decay: 1}"),
              HasSubstr("train.ema.decay is 1; expected more than 0 and below 1"));
}

TEST(UpdateCheckTest, TheNormToClipToIsNotNegative) {
  EXPECT_EQ(CheckSetting({"train.clipNorm=0.5"}), absl::OkStatus());
  EXPECT_THAT(ErrorSetting("train.clipNorm=-1"),
              HasSubstr("train.clipNorm is -1; expected 0 or more"));
}

}  // namespace
}  // namespace dp
