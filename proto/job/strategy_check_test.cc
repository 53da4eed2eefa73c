#include "proto/job/strategy_check.h"

#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

using ::testing::HasSubstr;

TEST(StrategyCheckTest, AStrategyIsOneOfThoseThatExist) {
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"train.strategy=ddp"})), absl::OkStatus());
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"train.strategy=localSgd"})), absl::OkStatus());
  EXPECT_THAT(ErrorSetting("train.strategy={}"),
              HasSubstr("train.strategy is empty; give ddp, dp, mp, ps or localSgd"));
}

TEST(StrategyCheckTest, DataParallelTrainsInOneProcessOnCpus) {
  const auto job = Parsed(kMinimal, {"train.strategy=dp"});
  EXPECT_EQ(CheckJob(job), absl::OkStatus());
  EXPECT_EQ(job.spec.train().strategy().dp().devices(), 2);
  EXPECT_EQ(job.spec.train().device(), "cpu");
  const std::string by_dp = std::string(kMinimal) + "  strategy: {dp: {devices: 4}}\n";
  EXPECT_THAT(ErrorSetting("ranks=2", by_dp), HasSubstr("the job has 2 ranks; leave ranks out"));
  EXPECT_THAT(ErrorSetting("train.nodes=1:3", by_dp), HasSubstr("the job has 3 ranks"));
  EXPECT_THAT(ErrorSetting("train.device=cuda", by_dp), HasSubstr("give train.device: cpu"));
  EXPECT_THAT(ErrorSetting("train.strategy={dp: {devices: 65}}"),
              HasSubstr("devices is 65; expected 1 to 64"));
}

std::string ErrorPlacing(int first, int second, const std::string& strategy = "mp") {
  const std::string layers =
      absl::StrCat("train.model={layers: [{device: ", first, ", flatten: {}}, {device: ", second,
                   ", linear: {out: 10}}]}");
  const auto job = Parsed(kMinimal, {layers, "train.strategy=" + strategy});
  return std::string(CheckJob(job).message());
}

TEST(StrategyCheckTest, ModelParallelNeedsLayersOnSeveralDevices) {
  EXPECT_EQ(ErrorPlacing(0, 1), "");
  EXPECT_THAT(ErrorPlacing(0, 0), HasSubstr("layers are all on one; give train.model.layers"));
  EXPECT_THAT(ErrorPlacing(0, 2), HasSubstr("no layer is on device 1, and some are on device 2"));
  EXPECT_THAT(ErrorPlacing(0, 64),
              HasSubstr("layer 'linear1' (linear): device is 64; it must be 0 to 63"));
  EXPECT_THAT(ErrorPlacing(0, 1, "ddp"),
              HasSubstr("layers[1].device is 1, and only train.strategy"));
  EXPECT_THAT(ErrorSetting("train.strategy=mp"), HasSubstr("layers are all on one"));
}

TEST(StrategyCheckTest, LocalSgdHasTheDefaultsOfDiLoCo) {
  const auto local =
      Parsed(kMinimal, {"train.strategy=localSgd"}).spec.train().strategy().local_sgd();
  EXPECT_EQ(local.sync_every(), 100);
  EXPECT_EQ(local.outer_learning_rate(), 0.7);
  EXPECT_EQ(local.outer_momentum(), 0.9);
  EXPECT_TRUE(local.nesterov());
}

TEST(StrategyCheckTest, NumbersOfLocalSgdHaveTheirRanges) {
  const auto error = [](const std::string& fields) {
    return ErrorSetting("train.strategy={localSgd: {" + fields + "}}");
  };
  EXPECT_THAT(error("syncEvery: 0"), HasSubstr("localSgd.syncEvery is 0; expected 1 to"));
  EXPECT_THAT(error("outerLearningRate: 0"), HasSubstr("is 0; expected more than 0"));
  EXPECT_THAT(error("outerMomentum: 1"), HasSubstr("is 1; expected at least 0 and below 1"));
}

TEST(StrategyCheckTest, RanksOfLocalSgdDoNotMeetWithinAStep) {
  const std::string by_local = std::string(kMinimal) + "  strategy: localSgd\n";
  EXPECT_THAT(ErrorSetting("train.loss={crossEntropy: {ignoreIndex: 255}}", by_local),
              HasSubstr("for which ranks meet in every step"));
  EXPECT_THAT(ErrorSetting("train.model={layers: [{batchNorm: {sync: true}}, {flatten: {}}, "
                           "{linear: {out: 10}}]}",
                           by_local),
              HasSubstr("layers[0].batchNorm.sync is true, and with train.strategy localSgd"));
}

TEST(StrategyCheckTest, LocalSgdKeepsNoAverageOfTheWeights) {
  EXPECT_THAT(
      ErrorSetting("train.ema={decay: 0.9}", std::string(kMinimal) + "  strategy: localSgd\n"),
      HasSubstr("train.ema follows every step"));
}

}  // namespace
}  // namespace dp
